"""What the page says and asks around lessons: near names, bad files, what was undone, the check-up, exports."""

from __future__ import annotations

import itertools
from typing import Any

from browser import LONG, Tab, draw
from web_clients import picture

from fscil.web.demo import DIGITS


def test_an_export_says_what_it_does(tab: Tab) -> None:
    page = tab.page
    held: list[Any] = []  # the export itself, until its stage has been asked for three times
    asked = itertools.count(1)

    def hold(route: Any) -> None:
        held.append(route)

    def stage(route: Any) -> None:
        route.fulfill(json={"stage": "Writing down the network"})
        if next(asked) == 3:
            disposition = {"content-disposition": 'attachment; filename="digits.onnx"'}
            held.pop().fulfill(body=b"a model", headers=disposition)

    page.route("**/api/export", hold)
    page.route("**/api/export-stage", stage)
    page.evaluate("""() => {
      window.stages = [];
      const said = document.getElementById("export-stage");
      new MutationObserver(() => window.stages.push(said.textContent)).observe(said, { childList: true });
    }""")
    with page.expect_download(timeout=LONG):
        page.click("#export")
    page.wait_for_selector("#export:enabled")
    stages = page.evaluate("window.stages")
    assert stages[0] == "Exporting…"
    assert stages[1] == "Writing down the network…"
    assert all(one != next_one for one, next_one in itertools.pairwise(stages))  # a screen reader says each once
    assert stages[-1] == "Downloading, 100\u202f%…"
    assert page.is_hidden("#export-stage")


def test_names_that_are_nearly_the_same_are_asked_about(tab: Tab) -> None:
    page = tab.page
    tab.teach("star", "star", range(2))

    def teach(name: str, seed: int, answer: str) -> None:
        draw(page, "#teach-pad", "star", seed)
        page.fill("#teach-name", name)
        page.press("#teach-name", "Enter")
        page.wait_for_selector("dialog.ask")
        assert "star" in page.inner_text("dialog h2")
        page.click(f"dialog button:has-text('{answer}')")
        page.wait_for_selector("dialog", state="detached")

    teach("STAR", 10, "Cancel")
    assert page.input_value("#teach-name") == "STAR"  # nothing is lost
    page.click(".frames .cross", force=True)
    teach("Stars", 11, "It is star")
    page.wait_for_function("() => document.querySelector('[data-class=\"star\"] .images').textContent === '3 images'")
    teach("STAR", 12, "STAR is another class")
    tab.wait_for_classes("STAR")
    page.click('[data-class="STAR"] .rename')
    page.fill("#class-list input", "sta-r")
    page.press("#class-list input", "Enter")
    page.wait_for_selector("dialog.ask")
    page.keyboard.press("Escape")
    assert tab.classes() == [*DIGITS, "star", "STAR"]


NEAR = {"STAR": "star", "star!": "star", "stars": "star", "Guinea-Pig": "guinea pig", "Cafe": "café", "cats": "cat",
        "star": None, "start": None, "class 2": None, "+": None, "bus": None, "bu": None}  # fmt: skip


def test_which_names_are_nearly_the_same(tab: Tab) -> None:
    script = """async ([names, known]) => {
      const { near } = await import("/static/names.js");
      return names.map((name) => near(name, known));
    }"""
    known = ["star", "guinea pig", "café", "cat", "class 1", "-", "glass"]
    assert tab.page.evaluate(script, [list(NEAR), known]) == list(NEAR.values())


def test_what_was_undone_is_not_spoken_of(tab: Tab) -> None:
    page = tab.page
    tab.teach("star", "star", range(3))
    assert tab.ask("star", 100) == "star"
    assert "Learned" in page.inner_text("#lesson")
    page.click("#undo")
    page.wait_for_selector('[data-class="star"]', state="detached")
    assert "Learned" not in page.inner_text("#lesson")
    tab.wait_for_answer("unknown")
    page.wait_for_function(
        "() => ![...document.querySelectorAll('#neighbours .neighbour-name')].some(e => e.textContent === 'star')"
        " || document.getElementById('because').hidden"
    )


def test_a_bad_file_is_marked_and_the_lesson_goes_on(tab: Tab) -> None:
    page = tab.page
    page.check('input[value="pictures"]', force=True)
    payloads = [
        {"name": name, "mimeType": "image/png", "buffer": content}
        for name, content in {
            "a.png": picture(60),
            "bad.png": b"no image",
            "b.png": picture(90),
            "c.heic": b"no",
        }.items()
    ]
    page.set_input_files("#teach-files", payloads)
    page.fill("#teach-name", "grey")
    page.press("#teach-name", "Enter")
    tab.wait_for_classes("grey")
    page.wait_for_selector(".faulty >> nth=1")
    assert page.locator(".frames .filled").count() == 2  # those that were not used
    assert "bad.png: not a PNG" in page.inner_text("#lesson")
    assert page.inner_text("#frames-count") == "0 of 5"
    assert page.is_disabled("#learn")
    page.set_viewport_size({"width": 390, "height": 844})
    page.set_input_files("#teach-files", payloads[:2])  # nothing of it can be used
    page.fill("#teach-name", "other")
    page.press("#teach-name", "Enter")
    page.wait_for_selector("#notice.failed")
    page.wait_for_selector(".faulty")
    assert page.locator(".frames .filled").count() == 2
    said = page.inner_text("#lesson")  # of all, as the first reason is not that of the others
    assert "bad.png: not a PNG" in said
    assert "a.png: " in said.replace("bad.png", "")
    assert page.locator("#notice").bounding_box()["width"] > 300  # all of a phone's width, where the words need it
    assert tab.classes() == [*DIGITS, "grey"]
    assert len(tab.complaints) == 1  # the browser's own, of the lesson that was refused
    assert "400" in tab.complaints.pop()


def test_the_check_up_moves_removes_and_keeps(tab: Tab) -> None:
    """A nine taught as a star among stars is found, and moved with one press."""
    page = tab.page
    for seed in range(5):
        draw(page, "#teach-pad", "star", seed)
        page.click("#keep")
    draw(page, "#teach-pad", "0", 3)
    page.fill("#teach-name", "star")
    page.press("#teach-name", "Enter")
    tab.wait_for_classes("star")
    page.wait_for_selector('[data-kind="looks_like_another"] .move')
    page.click('[data-kind="looks_like_another"] .move')
    page.wait_for_function("() => document.querySelector('[data-class=\"star\"] .images').textContent === '5 images'")
    assert page.inner_text('[data-class="0"] .images') == "6 images"
    page.click("#notice-undo")
    page.wait_for_selector('[data-kind="looks_like_another"] .keep-finding')
    assert page.inner_text('[data-kind="looks_like_another"] .keep-finding') == "Keep"
    page.click('[data-kind="looks_like_another"] .keep-finding')
    page.wait_for_selector('[data-kind="looks_like_another"]', state="detached")
    page.click("#notice-undo")
    page.wait_for_selector('[data-kind="looks_like_another"] .remove')
    page.click('[data-kind="looks_like_another"] .remove')
    page.wait_for_function("() => document.querySelector('[data-class=\"star\"] .images').textContent === '5 images'")
    assert page.inner_text('[data-class="0"] .images') == "5 images"


def test_who_keeps_two_that_look_alike_keeps_both(tab: Tab) -> None:
    """Its advice is to keep one of them, and the button does something else."""
    page = tab.page
    page.check('input[value="pictures"]', force=True)
    contents = {f"{grey}.png": picture(grey) for grey in (60, 61)}
    payloads = [{"name": name, "mimeType": "image/png", "buffer": content} for name, content in contents.items()]
    page.set_input_files("#teach-files", payloads)
    page.fill("#teach-name", "grey")
    page.press("#teach-name", "Enter")
    page.wait_for_selector('[data-kind="near_duplicate"] .keep-finding')
    assert page.inner_text('[data-kind="near_duplicate"] .keep-finding') == "Keep both"

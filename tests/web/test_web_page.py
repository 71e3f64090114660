"""The page in a real Chromium: drawn with the mouse, read from the screen, against the real learner."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from browser import DESKTOP, LONG, Tab, dense_points, draw, violations
from strokes import CHARACTERS, drawn
from web_clients import picture, serving

from fscil.teach import Learner
from fscil.web.app import create_app
from fscil.web.demo import DIGITS
from fscil.web.serve import _link, check


def test_draw_five_teach_draw_again(tab: Tab) -> None:
    assert tab.classes() == list(DIGITS)
    assert tab.ask("star", 100) == "unknown"
    assert "closest" in tab.page.inner_text("#verdict-note")
    tab.teach("star", "star", range(5))
    assert "from 5 images" in tab.page.inner_text("#lesson")
    assert tab.page.locator(".rivals li").count() > 0
    assert tab.classes() == [*DIGITS, "star"]
    tab.page.wait_for_function("() => document.querySelectorAll('.map [data-class=\"star\"] image').length === 5")
    tab.wait_for_answer("star")  # the drawing still on the sheet is judged anew
    assert tab.ask("star", 101) == "star"
    assert tab.page.inner_text("#neighbours li:first-child .neighbour-name") == "star"
    assert "star" in tab.page.inner_text("#bars .best")
    assert tab.ask("triangle", 102) == "unknown"


def test_drawings_are_recognised_from_printed_digits(tab: Tab, demo: Path, tmp_path: Path) -> None:
    """Many drawings through the page's own code, from strokes to the picture that is sent (see docs/serve.md)."""
    count = int(os.environ.get("FSCIL_DRAWINGS", "5"))  # of each character
    shapes = [name for name in CHARACTERS if name not in DIGITS]
    digits = {name: pictures_of(tab, name, range(1000, 1000 + count)) for name in DIGITS}
    others = {name: pictures_of(tab, name, range(1000, 1000 + count)) for name in shapes}
    shutil.copytree(demo, tmp_path / "copy")
    with Learner.open(tmp_path / "copy") as learner:
        right, unsure = shares(learner, digits)
        _, rejected = shares(learner, others)
        for name in shapes:
            learner.learn(name, pictures_of(tab, name, range(5)))
        learned, _ = shares(learner, others)
        kept, _ = shares(learner, digits)
    print(f"digits right {right:.1%}, unknown {unsure:.1%}; shapes unknown {rejected:.1%}")
    print(f"after five drawings of each shape: shapes right {learned:.1%}, digits right {kept:.1%}")
    assert right >= 0.9
    assert rejected >= 0.75
    assert learned >= 0.9
    assert kept >= 0.85


def pictures_of(tab: Tab, name: str, seeds: range) -> list[bytes]:
    """The pictures the page would send for drawings of a character."""
    drawings = [[[{"x": x, "y": y} for x, y in dense_points(stroke)] for stroke in drawn(name, seed)] for seed in seeds]
    script = """async (drawings) => {
      const { Pad } = await import("/static/pad.js");
      const pad = new Pad(document.createElement("canvas"), () => {});
      const read = async (strokes) => {
        pad.strokes = strokes;
        return [...new Uint8Array(await (await pad.picture()).arrayBuffer())];
      };
      return Promise.all(drawings.map(read));
    }"""
    return [bytes(content) for content in tab.page.evaluate(script, drawings)]


def shares(learner: Learner, pictures: dict[str, list[bytes]]) -> tuple[float, float]:
    """The shares of pictures that are named correctly, and called unknown."""
    names = [name for name, contents in pictures.items() for _ in contents]
    labels = [prediction.label for prediction in learner.predict([c for each in pictures.values() for c in each])]
    right = sum(name == label for name, label in zip(names, labels, strict=True))
    return right / len(names), labels.count("unknown") / len(names)


def test_rename_undo_remove_and_reload(tab: Tab, address: str) -> None:
    page = tab.page
    page.click('[data-class="3"] .rename')
    page.fill("#class-list input", "three")
    page.press("#class-list input", "Enter")
    tab.wait_for_classes("three")
    assert tab.ask("3", 5) == "three"
    tab.open(address)
    assert tab.classes() == [*"012", "three", *"456789"]
    page.click("#undo")
    tab.wait_for_classes("3")
    page.click('[data-class="8"] .remove')
    page.wait_for_selector('[data-class="8"]', state="detached")
    page.click("#notice-undo")
    tab.wait_for_classes("8")
    page.click('[data-class="1"] .images')  # opens all its images
    page.hover('[data-class="1"] .frame')
    page.click('[data-class="1"] .frame .cross')
    page.wait_for_function("() => document.querySelectorAll('[data-class=\"1\"] .frame').length === 4")
    tab.open(address)
    assert tab.classes() == list(DIGITS)
    assert page.inner_text('[data-class="1"] .images') == "4 images"


def test_two_tabs_at_once(tab: Tab, chrome: Any, address: str) -> None:
    other = Tab(tab.page.context, address)
    tab.page.bring_to_front()
    tab.teach("star", "star", range(3))
    other.page.bring_to_front()
    other.wait_for_classes("star")
    other.teach("house", "house", range(3))
    tab.page.bring_to_front()
    tab.wait_for_classes("star", "house")
    assert tab.classes() == other.classes() == [*DIGITS, "star", "house"]
    assert other.complaints == []


def test_a_name_is_text(tab: Tab) -> None:
    name = "<img src=x onerror=alert(1)>"
    tab.teach(name, "arrow", range(2))
    assert tab.classes()[-1] == name
    assert tab.page.locator("img[src=x]").count() == 0
    assert tab.ask("arrow", 50) == name


def test_pictures_by_keyboard_and_by_drop(tab: Tab, tmp_path: Path) -> None:
    files = []
    for level in (60, 100, 140):
        file = tmp_path / f"{level}.png"
        file.write_bytes(picture(level))
        files.append(str(file))
    page = tab.page
    page.focus('input[value="draw"]')
    page.keyboard.press("ArrowRight")  # to Pictures, as radio buttons do
    assert page.is_visible("#teach-pick")
    page.set_input_files("#teach-files", files)
    assert page.evaluate("document.activeElement.id") == "teach-name"
    page.keyboard.type("grey")
    page.keyboard.press("Enter")
    tab.wait_for_classes("grey")
    drop = """async (bytes) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
      document.getElementById("try").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
    }"""
    page.evaluate(drop, list(picture(120)))
    tab.wait_until_explained()
    assert page.is_visible("#try-picture")
    assert page.inner_text("#verdict-name") == "grey"


def test_a_file_that_is_no_image_is_explained(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    tab.page.set_input_files("#try-file", str(file))
    tab.page.wait_for_function("() => document.getElementById('verdict-note').textContent.includes('not a PNG')")


def test_camera(tab: Tab) -> None:
    page = tab.page
    page.check('input[value="camera"]', force=True)
    page.wait_for_selector("#keep:enabled")
    assert page.inner_text("#keep") == "Take picture"
    for _ in range(2):
        page.click("#keep")
    page.wait_for_function("() => document.querySelectorAll('.frames .filled').length === 2")
    page.fill("#teach-name", "camera")
    page.click("#learn")
    tab.wait_for_classes("camera")


@pytest.mark.usefixtures("traced")
def test_correct_an_answer_and_export(tab: Tab) -> None:
    page = tab.page
    assert tab.ask("heart", 3) != "heart"
    page.fill("#correct-name", "heart")
    page.press("#correct-name", "Enter")
    tab.wait_for_classes("heart")
    tab.wait_for_answer("heart")
    with page.expect_download(timeout=LONG) as download:
        page.click("#export")
    assert Path(download.value.path()).stat().st_size > 10_000
    assert download.value.suggested_filename.endswith(".onnx")


def test_an_empty_project_says_what_to_do(chrome: Any, tmp_path: Path) -> None:
    with Learner.create(tmp_path / "mine") as learner, serving(create_app(learner)) as address:
        context = chrome.new_context(viewport=DESKTOP)
        tab = Tab(context, address)
        assert "None yet" in tab.page.inner_text("#class-list")
        draw(tab.page, "#try-pad", "star", 1)
        tab.page.wait_for_function("() => document.getElementById('verdict-note').textContent.includes('nothing yet')")
        tab.teach("star", "star", range(2))
        assert tab.classes() == ["star"]
        context.close()
        assert tab.complaints == []


def test_the_token_is_asked_for_once_and_comes_with_the_link(chrome: Any, demo: Path, tmp_path: Path) -> None:
    """By the file that `serve --open` opens, by the printed address, or by hand; then the cookie is enough."""
    shutil.copytree(demo, tmp_path / "digits")
    with Learner.open(tmp_path / "digits") as learner:
        rules = check("127.0.0.1", None)
        with serving(create_app(learner, rules)) as address, _link(f"{address}/?token={rules.token}") as link:
            for way in (link, f"{address}/?token={rules.token}", address):
                context = chrome.new_context(viewport=DESKTOP)
                context.set_default_timeout(LONG)
                if way == address:
                    page = context.new_page()
                    page.goto(address)
                    page.fill("#token", str(rules.token))
                    page.screenshot(path=tmp_path / "token.png")
                    page.press("#token", "Enter")
                    page.wait_for_selector("#class-list li")
                tab = Tab(context, way)
                assert tab.page.url == f"{address}/"  # nothing of it stays in the address bar, or in the history
                assert tab.classes() == list(DIGITS)
                tab.page.reload()
                tab.page.wait_for_selector("#class-list li")
                [cookie] = context.cookies()
                assert cookie["httpOnly"]
                assert rules.token not in str(cookie)
                assert tab.page.evaluate("document.cookie") == ""
                tab.page.screenshot(path=tmp_path / "page.png")
                context.close()
                assert tab.complaints == []


LOOKS = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
        "color_scheme": "light",
    },
}


@pytest.mark.parametrize("look", LOOKS)
def test_looks_and_accessibility(chrome: Any, address: str, tmp_path: Path, look: str) -> None:
    """Screenshots (kept with FSCIL_SCREENSHOTS=docs/images), and what axe, an independent checker, finds."""
    context = chrome.new_context(**LOOKS[look])
    tab = Tab(context, address)
    kept = os.environ.get("FSCIL_SCREENSHOTS")
    tab.teach("star", "star", range(5 if kept else 2))
    draw(tab.page, "#teach-pad", "house", 1)
    tab.page.click("#keep")
    tab.ask("3", 5)
    tab.page.wait_for_selector("#doctor-body > *")
    tab.page.mouse.move(2, 2)
    tab.page.evaluate(
        "phone => phone ? document.getElementById('try').scrollIntoView() : scrollTo(0, 0)", look == "phone"
    )
    assert violations(tab.page) == []
    width = tab.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]  # nothing to scroll sideways
    folder = Path(kept or tmp_path)
    tab.page.screenshot(path=folder / f"teach-{look}.png", full_page=look != "phone")
    context.close()
    assert tab.complaints == []

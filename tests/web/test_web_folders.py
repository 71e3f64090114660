"""Folders and zips of class folders, given to the page: what is learned, what is left out, what is refused."""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from browser import Tab, violations
from films import scene
from PIL import Image
from web_clients import picture

from fscil.web.demo import DIGITS


def drawing(name: str, seed: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(scene(name, seed)).save(stream, "PNG")
    return stream.getvalue()


FILES = {f"things/{name}/{seed}.png": drawing(name, seed) for name in ("star", "house") for seed in range(3)}
OTHERS = {"things/star/notes.txt": b"hello", "things/star/bad.png": b"no image", "things/beside.png": picture(7),
          "__MACOSX/things/star/._1.png": b"x", "things/star/.hidden.png": picture(8)}  # fmt: skip


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def give(tab: Tab, content: bytes, name: str = "things.zip") -> None:
    payload = {"name": name, "mimeType": "application/zip", "buffer": content}
    tab.page.set_input_files("#teach-files", payload)


def refused(tab: Tab, sentence: str) -> None:
    tab.page.wait_for_function(
        "text => document.querySelector('#notice.failed #notice-text')?.textContent.includes(text)", arg=sentence
    )
    assert tab.page.is_hidden("#lessons")


def learn_what_is_offered(tab: Tab) -> None:
    tab.page.click("#lessons .go")
    tab.page.wait_for_function(
        "() => document.querySelector('#lessons strong')?.textContent.match(/^(Learned|Nothing)/)"
    )


@pytest.mark.parametrize("way", ["zip", "stored zip", "folder"])
def test_classes_are_learned_from_folders(tab: Tab, tmp_path: Path, way: str) -> None:
    page, files = tab.page, FILES | OTHERS
    if way == "folder":
        for name, content in files.items():
            (tmp_path / "given" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "given" / name).write_bytes(content)
        page.set_input_files("#teach-folder", str(tmp_path / "given" / "things"))
    else:
        give(tab, zipped(files, zipfile.ZIP_DEFLATED if way == "zip" else zipfile.ZIP_STORED))
    page.wait_for_selector("#lessons .go")
    assert "2 classes, 7 pictures" in page.inner_text("#lessons")
    assert "1 picture beside the folders is left out" in page.inner_text("#lessons")
    learn_what_is_offered(tab)
    assert page.inner_text("#lessons strong") == "Learned 2 classes from 6 pictures."
    page.click("#lessons summary")
    assert violations(page) == []
    assert "bad.png: not a PNG" in page.inner_text("#lessons .left-out")
    tab.wait_for_classes("star", "house")
    assert page.inner_text('[data-class="star"] .images') == "3 images"


def test_a_dropped_folder(tab: Tab, tmp_path: Path) -> None:
    """As the system drops it, of a single class: it fills the frames, and the name."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    box = tab.page.locator("#teach").bounding_box()
    place = {"x": box["x"] + 60, "y": box["y"] + 60}
    data = {"items": [], "files": [str(tmp_path / "things" / "star")], "dragOperationsMask": 1}
    session = tab.page.context.new_cdp_session(tab.page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
    tab.page.wait_for_function("() => document.querySelectorAll('.frames .filled').length === 3")
    assert tab.page.input_value("#teach-name") == "star"
    tab.page.press("#teach-name", "Enter")
    tab.wait_for_classes("star")


def test_many_pictures_in_portions_that_can_be_stopped(tab: Tab) -> None:
    give(tab, zipped({f"a/{level}.png": picture(level, 24) for level in range(100)}))
    tab.page.wait_for_selector("#lessons .go")
    tab.page.evaluate("""() => {
      const ask = window.fetch;
      window.lessons = 0;
      window.fetch = (path, options) => {
        if (path.includes("learn") && (window.lessons += 1) === 2) document.querySelector("#lessons button").click();
        return ask(path, options);
      };
    }""")
    learn_what_is_offered(tab)
    assert tab.page.evaluate("window.lessons") == 2
    assert "Stopped before the end" in tab.page.inner_text("#lessons")
    tab.page.click("#lessons button")
    tab.wait_for_classes("a")
    assert tab.page.inner_text('[data-class="a"] .images') == "32 images"


def test_names_that_are_nearly_known_are_asked_about(tab: Tab) -> None:
    tab.teach("star", "star", range(2))
    give(
        tab,
        zipped(
            {
                f"{name}/{seed}.png": drawing("star", seed + 10 * at)
                for at, name in enumerate(["STAR", "Stars", "x"])
                for seed in range(2)
            }
        ),
    )
    tab.page.wait_for_selector("#lessons .go")
    selects = tab.page.locator("#lessons select")
    assert [selects.nth(at).input_value() for at in range(selects.count())] == ["star", "star"]
    selects.nth(1).select_option("Stars")
    learn_what_is_offered(tab)
    assert tab.classes() == [*DIGITS, "star", "Stars", "x"]


def link() -> bytes:
    info = zipfile.ZipInfo("a/link.png")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/1.png", picture(1))
        archive.writestr(info, "/etc/passwd")
    return stream.getvalue()


def patched(content: bytes, at: int, layout: str, *values: int) -> bytes:
    """With other values at that place of every entry of the table of contents."""
    changed, start = bytearray(content), content.find(b"PK\1\2")
    while start >= 0:
        struct.pack_into(layout, changed, start + at, *values)
        start = content.find(b"PK\1\2", start + 4)
    return bytes(changed)


GOOD = zipped({"a/1.png": picture(1), "b/2.png": picture(2)})
REFUSED = {
    "leads up": (zipped({"a/../../b/1.png": picture(1)}), "leads out of its folder"),
    "absolute": (zipped({"/etc/1.png": picture(1)}), "leads out of its folder"),
    "a drive": (zipped({"C:/a/1.png": picture(1)}), "leads out of its folder"),
    "backslashes": (GOOD.replace(b"a/1.png", b"..\\1.pn"), "leads out of its folder"),
    "a control character": (GOOD.replace(b"a/1.png", b"a/\n.png"), "leads out of its folder"),
    "a link": (link(), "is a link to another file"),
    "a password": (patched(GOOD, 8, "<H", 1), "password"),
    "too large": (patched(GOOD, 24, "<I", 2**32 - 2), "unpacks to"),
    "shared bytes": (patched(GOOD, 42, "<I", 0), "as in a zip bomb"),
    "too many": (zipped({f"a/{number}.png": b"" for number in range(5001)}, zipfile.ZIP_STORED), "too many"),
    "no zip": (b"PK not at all", "is no zip"),
    "cut off": (GOOD[:-40], "is no zip"),
    "nothing in it": (zipped({}), "no pictures in folders"),
    "no folders": (zipped({"1.png": picture(1)}), "no pictures in folders"),
}


def test_tricks_are_refused_with_a_sentence(tab: Tab) -> None:
    for content, sentence in REFUSED.values():
        give(tab, content)
        refused(tab, sentence)
        tab.page.evaluate("document.getElementById('notice-text').textContent = ''")
    assert tab.classes() == list(DIGITS)


def test_what_unpacks_to_more_than_it_says_is_left_out(tab: Tab) -> None:
    """A bomb, whose inflating ends where its said size does; and damage."""
    give(tab, patched(zipped({"a/bomb.png": bytes(30_000_000)}), 24, "<I", 1000))
    tab.page.wait_for_selector("#lessons .go")
    learn_what_is_offered(tab)
    assert "Nothing was learned" in tab.page.inner_text("#lessons")
    tab.page.click("#lessons summary")
    assert "a/bomb.png: unpacks to more than it says" in tab.page.inner_text("#lessons .left-out")
    damaged = bytearray(zipped({"a/1.png": drawing("star", 1), "b/2.png": drawing("house", 1)}))
    at = damaged.find(b"a/1.png") + 60
    damaged[at : at + 40] = bytes(40)
    give(tab, bytes(damaged))
    tab.page.wait_for_selector("#lessons .go")
    learn_what_is_offered(tab)
    assert "Learned 1 class from 1 picture" in tab.page.inner_text("#lessons")
    assert "1 left out" in tab.page.inner_text("#lessons summary")


def test_the_limits_of_a_folder_agree_with_the_server(tab: Tab) -> None:
    from fscil.data.images import SUFFIXES
    from fscil.teach.project.limits import MAX_FILE_BYTES
    from fscil.web import invitations
    from fscil.web.pages import FOLDER

    def source(name: str) -> str:
        return (FOLDER / name).read_text(encoding="utf-8")

    script = "async names => { const { isPicture } = await import('/static/limits.js'); return names.map(isPicture); }"
    names: list[Any] = [f"a/picture{suffix.upper()}" for suffix in SUFFIXES]
    assert tab.page.evaluate(script, names) == [True] * len(names)
    assert tab.page.evaluate(script, ["a/x.txt", "a/.x.png", "__MACOSX/a/x.png"]) == [False] * 3
    sizes = dict(
        re.findall(r"const (MOST\w*|PORTION) = (\d+)", "".join(map(source, ["limits.js", "unzip.js", "lessons.js"])))
    )
    text = " ".join(
        (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8").replace(",", "").split()
    )
    for said in (
        f"more than {sizes['MOST']} pictures or {sizes['MOST_CLASSES']} classes",
        f"more than {int(sizes['MOST_BYTES']) // 1000} GB unpacked",
        f"learns it {sizes['PORTION']} pictures at a time",
        f"at most {invitations.MOST} hold at once",
    ):
        assert said in text
    assert f"MOST_OF_ONE = {MAX_FILE_BYTES // 1_000_000} * MEGABYTE" in (FOLDER / "unzip.js").read_text(
        encoding="utf-8"
    )

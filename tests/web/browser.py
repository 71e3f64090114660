"""A real Chromium for the page's tests, and a hand that draws with its mouse.

python tests/web/browser.py    says which one the tests take; without any it ends with code 1
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest
from strokes import Stroke, drawn

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


LONG = 300_000  # milliseconds: what a page may take on a busy machine
DESKTOP = {"width": 1280, "height": 900}


def module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        _missing(f"{name.partition('.')[0]} is not installed")


def chromium(playwright: Any) -> str:
    """The browser on the PATH, or the one that `playwright install chromium` brought."""
    own = playwright.chromium.executable_path
    found = next((path for name in NAMES if (path := shutil.which(name))), own if Path(own).is_file() else None)
    return found or _missing(f"no {NAMES[0]} on the PATH and none of playwright's own")


def _missing(reason: str) -> NoReturn:
    """Tests that need a browser are left out, which conftest.py says loudly; not so in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"No browser test can run here: {reason}")
    pytest.skip(f"No browser test can run here: {reason}")


def launch(playwright: Any, film: Path | None = None) -> Any:
    """With a camera that sees a film (of format y4m), else Chromium's own test picture."""
    options = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    if film is not None:
        options.append(f"--use-file-for-fake-video-capture={film}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--no-sandbox")  # Chromium does not start as root with it
    return playwright.chromium.launch(executable_path=chromium(playwright), args=options, timeout=LONG)


class Tab:
    """One page, and everything its console complained about."""

    def __init__(self, context: Any, address: str) -> None:
        context.set_default_timeout(LONG)
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.open(address)

    def open(self, address: str) -> None:
        self.page.goto(address)
        self.page.wait_for_selector("#class-list li")

    def teach(self, name: str, like: str, seeds: range) -> None:
        """Draw a few and teach them; the last drawing is taken along by the Learn button."""
        for seed in seeds:
            draw(self.page, "#teach-pad", like, seed)
            if seed != seeds[-1]:
                self.page.click("#keep")
        self.page.fill("#teach-name", name)
        self.page.press("#teach-name", "Enter")
        self.page.wait_for_function("name => document.querySelector('#lesson strong')?.textContent === name", arg=name)
        self.wait_for_classes(name)

    def ask(self, like: str, seed: int) -> str:
        """What the page says about a drawing, once it has explained it."""
        if self.page.is_enabled("#try-clear"):
            self.page.click("#try-clear")
        draw(self.page, "#try-pad", like, seed)
        self.wait_until_explained()
        return str(self.page.inner_text("#verdict-name"))

    def wait_until_explained(self) -> None:
        """What is on the sheet now: on a slow machine half a drawing is explained as well."""
        latest = "document.getElementById('because').dataset.round === document.getElementById('try').dataset.round"
        self.page.wait_for_function(f"() => {latest} && !document.getElementById('because').hidden")

    def wait_for_answer(self, expected: str) -> None:
        script = "text => document.getElementById('verdict-name').textContent === text"
        self.page.wait_for_function(script, arg=expected)

    def classes(self) -> list[str]:
        return self.page.locator("#class-list .class-name").all_inner_texts()

    def wait_for_classes(self, *expected: str) -> None:
        script = (
            "names => names.every(n => [...document.querySelectorAll('.class-name')].some(e => e.textContent === n))"
        )
        self.page.wait_for_function(script, arg=list(expected))


def violations(page: Any) -> list[tuple[str, str]]:
    """What axe, an independent checker, finds inaccessible in the page as it is now."""
    axe = module("axe_playwright_python.sync_playwright")
    page.wait_for_function("() => document.getAnimations().every(each => each.playState !== 'running')")
    return [(each["id"], each["nodes"][0]["html"]) for each in axe.Axe().run(page).response["violations"]]


def draw(page: Any, pad: str, name: str, seed: int) -> None:
    """Draw a character on a sheet, stroke by stroke, with the mouse."""
    page.locator(pad).scroll_into_view_if_needed()
    box = page.locator(pad).bounding_box()
    for stroke in drawn(name, seed):
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in dense_points(stroke)]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point)
        page.mouse.up()


def dense_points(stroke: Stroke) -> Stroke:
    """Points no farther apart than a mouse reports them."""
    dense: Stroke = []
    for (x0, y0), (x1, y1) in itertools.pairwise(stroke):
        steps = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / 0.1))
        dense += [(x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps) for step in range(steps)]
    return [*dense, stroke[-1]]


if __name__ == "__main__":
    with module("playwright.sync_api").sync_playwright() as found:
        try:
            print(f"Browser for the tests: {chromium(found)}")
        except (pytest.fail.Exception, pytest.skip.Exception) as missing:
            raise SystemExit(f"{missing}") from None

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


def launch(playwright: Any) -> Any:
    options = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--no-sandbox")  # Chromium does not start as root with it
    return playwright.chromium.launch(executable_path=chromium(playwright), args=options, timeout=LONG)


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

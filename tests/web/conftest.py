"""The page in a real Chromium, with a copy of the demo project."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import DESKTOP, Tab, launch, module
from web_clients import serving

from fscil.teach import Learner
from fscil.web.app import create_app
from fscil.web.demo import make_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "project"
    make_demo(folder, "glyphs").close()
    return folder


@pytest.fixture(scope="session")
def playwright_here() -> Iterator[Any]:
    with module("playwright.sync_api").sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def chrome(playwright_here: Any) -> Iterator[Any]:
    browser = launch(playwright_here)
    yield browser
    browser.close()


@pytest.fixture
def traced(kept_traces: None, demo: Path, tmp_path: Path) -> None:
    """The demo's network is written down already: on a busy machine that may take longer than a page is waited for."""
    with Learner.open(shutil.copytree(demo, tmp_path / "traced")) as learner:
        learner.export(tmp_path / "traced.onnx")


@pytest.fixture
def address(chrome: Any, demo: Path, tmp_path: Path) -> Iterator[str]:
    """A server with a copy of the demo project."""
    folder = tmp_path / "digits"
    shutil.copytree(demo, folder)
    with Learner.open(folder) as learner, serving(create_app(learner, demo=True, folder=tmp_path)) as address:
        yield address


@pytest.fixture
def tab(chrome: Any, address: str) -> Iterator[Tab]:
    context = chrome.new_context(viewport=DESKTOP)
    tab = Tab(context, address)
    yield tab
    context.close()
    assert tab.complaints == []

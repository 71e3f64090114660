"""The site as a visitor gets it: built strictly, complete, from one place, and it can be searched without a network."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import LONG, launch, module

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


class Loaded(HTMLParser):
    """What a page loads, and what it links to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        fetched = tag in ("script", "img", "iframe", "source", "video") or (
            tag == "link" and given.get("rel") not in ("canonical", "prev", "next")
        )
        if fetched and (target := given.get("src") or given.get("href")):
            self.loads.append(target)


def pages(site: Path) -> dict[str, str]:
    return {page.relative_to(site).as_posix(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    found = pages(site)
    methods = {f"methods/{page.stem}/index.html" for page in (ROOT / "docs/methods").glob("*.md")} - {
        "methods/README/index.html"
    }
    assert methods | {
        "index.html", "teach/index.html", "serve/index.html", "bench/index.html", "data/index.html", "gacc/index.html",
        "methods/index.html", "results/index.html", "contributing/index.html", "reliability/index.html",
        "api/index.html", "api/metrics/index.html", "audit/index.html", "design/index.html", "changelog/index.html",
        "examples/photographs/index.html", "examples/compare/index.html", "examples/add_method/index.html",
    } <= found.keys()  # fmt: skip
    for name, html in found.items():
        for target in Loaded(html).loads:
            assert not re.match(r"(https?:)?//", target), f"{name} loads {target}"
    for sheet in (site / "stylesheets").glob("*.css"):
        assert "http" not in sheet.read_text(encoding="utf-8")


def test_the_menu_leads_to_every_page(site: Path) -> None:
    home = pages(site)["index.html"]
    for name in pages(site):
        if name not in ("index.html", "404.html"):
            assert f'href="{name.removesuffix("index.html")}"' in home or name.startswith("methods/"), name
    index = pages(site)["methods/index.html"]
    for page in (ROOT / "docs/methods").glob("[!R]*.md"):
        assert f'href="{page.stem}/"' in index, page.name


def test_nothing_is_left_of_what_the_hooks_should_have_replaced(site: Path) -> None:
    for name, html in pages(site).items():
        assert "::: fscil" not in html, name
        assert not re.search(r"<p>[^<]*\n- ", html), f"{name} has a list that is none"
        assert not re.search(r'href="[^"]*\.(md|ipynb)[#"]', html), f"{name} links to a source"


def test_fields_of_the_reference_have_their_comments(site: Path) -> None:
    assert "training images per new class" in pages(site)["api/data/index.html"]


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with module("playwright.sync_api").sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_pages_fit_the_window_and_ask_nobody_else(browser: Any, address: str, look: str) -> None:
    size = {"width": 390, "height": 800} if look == "phone" else {"width": 1280, "height": 900}
    context = browser.new_context(viewport=size, color_scheme="dark" if look == "dark" else "light")
    context.set_default_timeout(LONG)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    for name in ("", "results/", "methods/", "methods/yourself/", "gacc/", "api/metrics/", "examples/compare/"):
        page.goto(address + name)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
    scheme = page.evaluate("document.body.getAttribute('data-md-color-scheme')")
    assert scheme == ("slate" if look == "dark" else "default")
    assert all(url.startswith((address, "data:")) for url in asked), asked
    context.close()


def test_the_search_finds_a_page_without_a_network(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(LONG)
    context.route("**/*", lambda route: route.continue_() if route.request.url.startswith(address) else route.abort())
    page = context.new_page()
    page.goto(address)
    query, first = page.locator("[data-md-component=search-query]"), page.locator(".md-search-result__item a").first
    query.click()
    ended = time.monotonic() + LONG / 1000
    while not first.is_visible() and time.monotonic() < ended:
        query.fill("")  # what is typed before the page's script listens is never heard of
        query.fill("whitened layers")
        page.wait_for_timeout(2000)
    assert "methods/whitened" in page.locator(".md-search-result__list").inner_html()
    context.close()

"""The live view of the camera, and recording while a button is held, with Chromium's fake camera."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import DESKTOP, Tab, launch
from films import scene, write_film
from web_clients import picture, serving

from fscil.teach import Learner
from fscil.web.app import create_app

NAMES = ("star", "house")


@pytest.fixture(scope="module")
def filming(playwright_here: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose camera sees a star and a house in turn."""
    film = write_film(tmp_path_factory.mktemp("film") / "film.y4m", [scene(name) for name in NAMES])
    browser = launch(playwright_here, film)
    yield browser
    browser.close()


@pytest.fixture
def tab(filming: Any, demo: Path, tmp_path: Path) -> Iterator[Tab]:
    shutil.copytree(demo, tmp_path / "digits")
    with Learner.open(tmp_path / "digits") as learner:
        for name in NAMES:
            learner.learn(name, [scene(name, seed) for seed in range(1, 6)])
        with serving(create_app(learner)) as address:
            context = filming.new_context(viewport=DESKTOP)
            tab = Tab(context, address)
            yield tab
            context.close()
            assert tab.complaints == []


class Traffic:
    """Which questions about pictures are on their way."""

    def __init__(self, page: Any) -> None:
        self.asked = self.answered = self.most = 0
        page.on("request", lambda request: self._count(request, 1))
        page.on("requestfinished", lambda request: self._count(request, -1))
        page.on("requestfailed", lambda request: self._count(request, -1))

    def _count(self, request: Any, step: int) -> None:
        if "/api/predict" in request.url:
            self.asked += step > 0
            self.answered += step < 0
            self.most = max(self.most, self.asked - self.answered)


def verdict(tab: Tab, name: str) -> None:
    tab.page.wait_for_function("n => document.getElementById('verdict-name').textContent === n", arg=name)


def hide(tab: Tab, hidden: bool) -> None:
    """As if another tab were in front: headless Chromium shows all of them."""
    script = """hidden => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    tab.page.evaluate(script, hidden)


def wait_for_more(tab: Tab, traffic: Traffic, count: int) -> None:
    goal = traffic.answered + count
    while traffic.answered < goal:
        tab.page.wait_for_timeout(20)


def test_the_verdict_follows_the_camera_one_question_at_a_time(tab: Tab) -> None:
    page, traffic = tab.page, Traffic(tab.page)
    page.evaluate("""() => {
      const [title, name] = ["because-title", "verdict-name"].map((id) => document.getElementById(id));
      window.mismatches = [];
      const look = () => {
        const shown = !document.getElementById("because").hidden;
        const agrees = title.textContent.endsWith(` of ${name.textContent}`) || name.textContent === "unknown";
        if (shown && !agrees) window.mismatches.push([title.textContent, name.textContent]);
        requestAnimationFrame(look);
      };
      look();
    }""")
    page.click("#try-camera")
    assert page.get_attribute("#try-camera", "aria-pressed") == "true"
    for name in (*NAMES, *NAMES):
        verdict(tab, name)
    began, before = time.monotonic(), traffic.answered
    wait_for_more(tab, traffic, 12)
    print(f"{(traffic.answered - before) / (time.monotonic() - began):.1f} answers a second")
    assert traffic.most == 1
    page.wait_for_selector("#because:not([hidden])")
    assert page.inner_text("#spoken").split(".")[0] in {*NAMES, "unknown"}
    assert page.evaluate("window.mismatches") == []
    page.click("#try-camera")  # off again
    assert page.is_hidden("#try-video")
    assert page.inner_text("#verdict-note") == "Its answer appears here."
    page.wait_for_timeout(300)
    assert traffic.asked == traffic.answered


def test_a_slow_server_is_asked_less_often(tab: Tab) -> None:
    page, traffic = tab.page, Traffic(tab.page)

    late = """() => {
      const ask = window.fetch;
      window.waiting = window.most = 0;
      window.fetch = async (path, options) => {
        if (!path.includes("predict")) return ask(path, options);
        window.most = Math.max(window.most, (window.waiting += 1));
        await new Promise((resolve) => setTimeout(resolve, 600));
        window.waiting -= 1;
        return ask(path, options);
      };
    }"""
    page.evaluate(late)
    page.click("#try-camera")
    wait_for_more(tab, traffic, 4)
    assert page.evaluate("window.most") == traffic.most == 1
    page.click("#try-clear")
    assert page.is_hidden("#try-video")


def test_nobody_is_filmed_while_the_page_is_hidden(tab: Tab) -> None:
    page, traffic = tab.page, Traffic(tab.page)
    page.click("#try-camera")
    wait_for_more(tab, traffic, 2)
    page.evaluate("() => (window.track = document.getElementById('try-video').srcObject.getTracks()[0])")
    hide(tab, True)
    page.wait_for_function("() => window.track.readyState === 'ended'")  # the camera's light is off
    page.wait_for_timeout(500)
    asked = traffic.asked
    assert asked == traffic.answered
    page.wait_for_timeout(500)
    assert traffic.asked == asked
    hide(tab, False)
    wait_for_more(tab, traffic, 2)
    page.click("#try-clear")


def test_what_the_camera_sees_is_corrected(tab: Tab) -> None:
    """The picture that was judged is learned."""
    page = tab.page
    page.click("#try-camera")
    page.wait_for_selector("#correct:not([hidden])")
    page.fill("#correct-name", "film")
    page.press("#correct-name", "Enter")
    tab.wait_for_classes("film")
    verdict(tab, "film")
    page.click("#try-clear")


@pytest.mark.parametrize("by", ["mouse", "Space", "Enter"])
def test_a_press_takes_one_picture_and_a_hold_several(tab: Tab, by: str) -> None:
    page = tab.page
    page.check('input[value="camera"]', force=True)
    page.wait_for_selector("#keep:enabled")
    page.focus("#keep")
    count = "document.querySelectorAll('.frames .filled').length"

    def down() -> None:
        if by == "mouse":
            page.hover("#keep")
            page.mouse.down()
        else:
            page.keyboard.down(by)

    def up() -> None:
        page.mouse.up() if by == "mouse" else page.keyboard.up(by)

    down()
    up()
    page.wait_for_function(f"() => {count} === 1")
    page.wait_for_timeout(600)
    assert page.evaluate(count) == 1
    down()
    page.wait_for_selector(".recording")
    page.wait_for_function(f"() => {count} >= 4")
    up()
    page.wait_for_selector(".recording", state="detached")
    taken = page.evaluate(count)
    page.wait_for_timeout(600)
    assert page.evaluate(count) <= taken + 1  # one may have been on its way
    page.wait_for_timeout(150)
    page.click("#keep")
    page.wait_for_function(f"taken => {count} > taken", arg=taken)


def test_the_click_that_ends_a_hold_takes_no_picture(tab: Tab) -> None:
    script = """async () => {
      const { Record } = await import("/static/record.js");
      const button = document.createElement("button");
      let taken = 0;
      const record = new Record(button, { take: async () => (taken += 1), ready: () => true, changed: () => {} });
      const spent = [];
      const press = async (until) => {
        button.dispatchEvent(new KeyboardEvent("keydown", { key: " " }));
        while (!until()) await new Promise((resolve) => setTimeout(resolve, 5));
        button.dispatchEvent(new KeyboardEvent("keyup", { key: " " }));
        spent.push(record.spent);
      };
      await press(() => true); // released at once
      await press(() => taken > 1);
      while (record.spent) await new Promise((resolve) => setTimeout(resolve, 5));
      const again = new KeyboardEvent("keydown", { key: "Enter", repeat: true, cancelable: true });
      button.dispatchEvent(again);
      return [...spent, again.defaultPrevented, record.held];
    }"""
    assert tab.page.evaluate(script) == [False, True, True, None]  # a key that repeats itself is no second press


def test_a_hold_ends_where_a_lesson_is_full_and_both_views_share_the_camera(tab: Tab) -> None:
    page = tab.page
    many = [{"name": f"{level}.png", "mimeType": "image/png", "buffer": picture(level)} for level in range(61)]
    page.set_input_files("#teach-files", many)
    page.check('input[value="camera"]', force=True)
    page.wait_for_selector("#keep:enabled")
    page.click("#try-camera")
    page.wait_for_function("() => document.getElementById('try-video').srcObject")
    streams = "['try-video', 'teach-video'].map(id => document.getElementById(id).srcObject?.id)"
    one, other = page.evaluate(streams)
    assert one == other
    page.click("#try-camera")
    assert page.evaluate("document.getElementById('teach-video').srcObject.getTracks()[0].readyState") == "live"
    page.focus("#keep")
    page.keyboard.down("Space")
    page.wait_for_function("() => document.querySelectorAll('.frames .filled').length === 64")
    page.wait_for_selector(".recording", state="detached")
    page.keyboard.up("Space")
    page.check('input[value="draw"]', force=True)
    page.wait_for_function("() => document.getElementById('teach-video').srcObject === null")

"""How often a picture of a known class may be called unknown: chosen on the page, by keyboard, and seen at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from browser import DESKTOP, Tab, violations
from web_clients import serving

from fscil.teach import Learner
from fscil.web.app import create_app

RATES = ["1", "2", "5", "10", "20"]


def chosen(tab: Tab) -> str:
    return str(tab.page.evaluate("document.getElementById('false-alarms').selectedOptions[0].textContent"))


def wait_for_state(tab: Tab, text: str) -> None:
    script = "text => document.getElementById('unknown-now').textContent.includes(text)"
    tab.page.wait_for_function(script, arg=text)


def test_the_rate_of_false_alarms_is_chosen_by_keyboard_and_shown(chrome: Any, demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo, tmp_path / "digits")
    with Learner.open(tmp_path / "digits") as learner, serving(create_app(learner)) as address:
        context = chrome.new_context(viewport=DESKTOP)
        tab = Tab(context, address)
        page = tab.page
        wait_for_state(tab, "5\u202f%")  # without opening anything
        page.focus(".threshold summary")
        page.keyboard.press("Enter")
        choice = page.get_by_label("How often may a picture of a known class be called unknown?")
        assert choice.locator("option").all_inner_texts() == [f"{rate}\u202f%" for rate in RATES]
        assert chosen(tab) == "5\u202f%"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "false-alarms"
        page.keyboard.press("End")
        wait_for_state(tab, "20\u202f%")
        assert learner.false_alarms() == 0.2
        assert page.evaluate("document.activeElement.id") == "false-alarms"  # the keyboard stays where it was
        learner.set_threshold(false_alarms=0.07)  # by somebody else, and none of those offered
        wait_for_state(tab, "7\u202f%")
        assert chosen(tab) == "7\u202f%"
        learner.set_threshold(0.5)
        wait_for_state(tab, "likeness of 50\u202f%")
        assert chosen(tab) == "as set below"
        assert violations(page) == []
        choice.select_option("0.01")
        wait_for_state(tab, "1\u202f%")
        assert learner.false_alarms() == 0.01
        page.click("#threshold-auto")
        wait_for_state(tab, "5\u202f%")
        context.close()
        assert tab.complaints == []


def test_the_answer_that_is_shown_is_judged_anew(chrome: Any, demo: Path, tmp_path: Path) -> None:
    """A drawing whose likeness lies between the thresholds of 1 and 20 % is known with the one, not with the other."""
    shutil.copytree(demo, tmp_path / "digits")
    with Learner.open(tmp_path / "digits") as learner, serving(create_app(learner)) as address:
        context = chrome.new_context(viewport=DESKTOP)
        tab = Tab(context, address)
        page = tab.page
        page.click(".threshold summary")
        known = []
        for name, seed in (("5", 1), ("7", 2), ("4", 3), ("9", 4), ("2", 5), ("6", 6)):
            page.select_option("#false-alarms", "0.01")
            wait_for_state(tab, "about 1\u202f%")
            known.append(tab.ask(name, seed) != "unknown")
            page.select_option("#false-alarms", "0.2")
            wait_for_state(tab, "about 20\u202f%")
            tab.wait_until_explained()
            if known[-1] and page.inner_text("#verdict-name") == "unknown":
                break
        else:
            raise AssertionError(f"no answer changed; known at 1 %: {known}")
        context.close()
        assert tab.complaints == []

"""The page of a project with many classes: no more is drawn, loaded or computed than somebody looks at."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import DESKTOP, Tab, violations
from fake_learner import FakeLearner
from PIL import Image
from web_clients import client_of, serving

from fscil.teach import Diagnosis, Finding
from fscil.web.app import create_app

CLASSES, IMAGES = 500, 5


def coloured(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), (number % 256, number // 256, 0)).save(stream, "PNG", compress_level=0)
    return stream.getvalue()


class Many(FakeLearner):
    """It knows hundreds of classes, about each of which its check-up has something to say."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checked = 0
        for number in range(CLASSES):
            pictures = [coloured(number * IMAGES + each) for each in range(IMAGES)]
            name = f"class {number}"
            self.known[name] = {hashlib.sha256(each).hexdigest(): each for each in pictures}
            self.changes.append((f"learned {name}", {}))

    def doctor(self) -> Diagnosis:
        self.checked += 1
        findings = [
            Finding("few_images", "warning", f"'{name}' has few images.", "Add some.", list(images)[:2], [name])
            for name, images in self.known.items()
        ]
        return Diagnosis(findings, len(self.known), 0, None, None, None, None, [], 0.9)


@pytest.fixture
def many(tmp_path: Path) -> Many:
    return Many(tmp_path)


@pytest.fixture
def crowded(chrome: Any, many: Many) -> Iterator[tuple[Tab, list[str]]]:
    """The page, and the addresses of the images that it loads."""
    with serving(create_app(many)) as address:
        context = chrome.new_context(viewport=DESKTOP)
        loaded: list[str] = []
        context.on("request", lambda each: "/api/image/" in each.url and loaded.append(each.url))
        tab = Tab(context, address)
        tab.page.wait_for_selector("#history li", state="attached")
        yield tab, loaded
        context.close()
        assert tab.complaints == []


def test_little_of_many_classes_is_drawn(crowded: tuple[Tab, list[str]]) -> None:
    tab, loaded = crowded
    page = tab.page
    names = page.locator("#class-list .class-name").all_text_contents()
    assert names == [f"class {number}" for number in range(CLASSES)]  # to be read, and found
    page.wait_for_selector('[data-class="class 0"] .rename')
    page.wait_for_load_state("networkidle")
    assert page.locator("#class-list .rename").count() < 100
    assert page.evaluate("document.getElementsByTagName('*').length") < 8 * CLASSES
    assert len(set(loaded)) < CLASSES
    assert violations(page) == []


def test_what_comes_into_sight_is_drawn_and_works(crowded: tuple[Tab, list[str]], many: Many) -> None:
    tab, _ = crowded
    page = tab.page
    page.locator('#class-list [data-class="class 400"]').scroll_into_view_if_needed()
    page.wait_for_function(
        "() => document.querySelector('#class-list [data-class=\"class 400\"] img')?.naturalWidth > 0"
    )
    assert page.locator('#class-list [data-class="class 200"] .rename').count() == 0
    page.click('#class-list [data-class="class 400"] .rename')
    page.fill("#class-list input", "four hundred")
    page.press("#class-list input", "Enter")
    tab.wait_for_classes("four hundred")
    page.wait_for_selector('#class-list [data-class="four hundred"] .images')  # still in sight, and drawn again
    assert "four hundred" in many.known
    page.click('#class-list [data-class="four hundred"] .images')
    page.wait_for_function("() => document.querySelectorAll('[data-class=\"four hundred\"] .frame').length === 5")


def test_few_names_are_suggested_and_those_that_fit(crowded: tuple[Tab, list[str]]) -> None:
    page = crowded[0].page
    suggested = page.locator("#class-names option")
    assert suggested.count() <= 100
    page.fill("#teach-name", "class 49")
    page.wait_for_function("() => document.querySelectorAll('#class-names option').length === 11")
    values = suggested.evaluate_all("options => options.map(each => each.value)")
    assert values == ["class 49", *(f"class {number}" for number in range(490, 500))]


def test_the_check_up_of_many_classes_is_made_when_it_is_asked_for(crowded: tuple[Tab, list[str]], many: Many) -> None:
    tab, _ = crowded
    page = tab.page
    assert many.checked == 0
    page.click("#doctor-ask")
    page.wait_for_selector(".finding")
    assert many.checked == 1
    assert page.locator(".finding").count() < 50
    shown = page.locator(".finding").count()
    page.click(".findings .more")
    page.wait_for_function("count => document.querySelectorAll('.finding').length > count", arg=shown)
    page.click('#class-list [data-class="class 0"] .remove')
    page.wait_for_selector("#doctor-ask")  # what was said of the project as it was is not true any more
    assert many.checked == 1
    assert violations(page) == []


def test_long_answers_are_sent_compressed_where_that_is_asked_for(many: Many) -> None:
    client = client_of(many)
    for name in ("classes", "map", "doctor", "history"):
        plain = client.get(f"/api/{name}", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        with client.stream("GET", f"/api/{name}", headers={"accept-encoding": "gzip"}) as answer:
            raw = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        assert len(raw) < len(plain.content)
        assert json.loads(gzip.decompress(raw)) == plain.json()
    [image, *_] = many.known["class 0"]
    for path in (f"/api/image/{image}", "/api/export", "/static/app.js", "/api/openapi.json"):
        answer = client.get(path, headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in answer.headers
        assert "content-length" in answer.headers  # the page shows how much of an export has come

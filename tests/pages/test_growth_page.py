"""docs/growth.md: bends of curves that are known, and a page and figures that say what is stored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from docs_maker.curves import about, bend, said, seconds
from docs_maker.growth_figures import FIGURES, draw_growth
from docs_maker.growth_page import growth_page
from fscil.core.storage import read_json
from fscil.pages.paper.figures.canvas import FINGERPRINT, fingerprint

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
SIZES = (10.0, 100.0, 1_000.0, 10_000.0)


def test_a_curve_bends_where_what_grows_weighs_as_much_as_what_does_not() -> None:
    found = bend([(x, 1 + (x / 10) ** 2 / 100) for x in SIZES])  # 1.01 at the start
    assert found.at is not None
    assert 50 < found.at < 110
    assert found.slope == pytest.approx(2, abs=0.01)
    straight = bend([(x, 3 * x) for x in SIZES])
    assert straight.at == pytest.approx(20)
    assert (straight.slope, straight.factor) == (pytest.approx(1), pytest.approx(1_000))


def test_what_does_not_grow_does_not_bend() -> None:
    assert bend([(x, 5.0) for x in SIZES]).at is None
    assert bend([(10, 1.0), (100, 9.0), (1_000, 1.1)]).at is None  # off once, on the way
    assert bend([(10, 1.0)]).at is None


def test_bends_are_said() -> None:
    assert said([(x, 1.0) for x in SIZES], "images") == (
        "does not bend up to 10,000 images (1.0 times what it is with 10)"
    )
    for power, words in ((2, "as their square"), (1, "in proportion"), (0.5, "slower than they do")):
        assert said([(x, x**power) for x in SIZES], "images").endswith(words)
    assert "has no flat part; with 10,000 it is 1,000 times" in said([(x, x) for x in SIZES], "images")
    late = said([(10, 1.0), (100, 1.0), (1_000, 4.0)], "images")
    assert late.startswith("bends at about 320 images; with 1,000 it is 4.0 times what it is with 10, and grows")


@pytest.mark.parametrize(
    ("value", "words"), [(0.0000316, "32 µs"), (0.00212, "2.1 ms"), (0.4567, "460 ms"), (23.4, "23 s"), (None, "–")]
)
def test_times_have_two_digits(value: float | None, words: str) -> None:
    assert seconds(value) == words


@pytest.mark.parametrize(("value", "words"), [(1.26, "1.3"), (0.0123, "0.012"), (9.99, "10.0"), (1234, "1,200")])
def test_numbers_have_two_digits(value: float, words: str) -> None:
    assert about(value) == words


def test_the_page_and_its_figures_are_up_to_date() -> None:
    text = (DOCS / "growth.md").read_text(encoding="utf-8")
    assert text == growth_page(RESULTS), "run `make docs`"
    shown = re.findall(r"\(figures/([\w-]+)\.png\)", text)
    drawn = {name: figure for name in FIGURES if (figure := draw_growth(name, RESULTS))}
    assert sorted(shown) == sorted(drawn)
    for name, figure in drawn.items():
        with Image.open(DOCS / "figures" / f"{name}.png") as image:
            assert image.info[FINGERPRINT] == fingerprint(figure), "run `make docs`"


def test_what_compares_with_means_costs_the_same_however_many_classes_there_are() -> None:
    methods = read_json(RESULTS / "growth.json")["methods"]["methods"]
    means = {name: each for name, each in methods.items() if each["means"]}
    assert len(means) == 11
    for name, each in means.items():
        assert [point["classes"] for point in each["points"]] == [20, 200, 2_000, 20_000], name
        assert bend([(point["classes"], point["seconds"]) for point in each["points"]]).at is None, name

"""What every page is made of: styles, numbers, drawings, the glossary."""

from __future__ import annotations

import re

import pytest
from matplotlib.colors import to_hex

from fscil.core.palette import STYLES, styles
from fscil.pages.kit.drawings import LayerPoint, crowded, draw_layers, layer_legend, layer_ticks
from fscil.pages.kit.looks import ROLES, paint, role_of, themed
from fscil.pages.kit.prose import listed, number, plus_minus, signed
from fscil.pages.kit.svg import panel, swatch
from fscil.pages.kit.templates import glossary
from fscil.results.significance import Spread


def test_a_method_keeps_its_style_from_page_to_page() -> None:
    few, many = styles(["yourself", "prototypes"]), styles(["savc", "yourself", "prototypes", "alice"])
    assert few["yourself"] == many["yourself"]
    assert few["prototypes"] == many["prototypes"]
    assert styles(["b", "a"]) == styles(["a", "b"])
    assert len(set(styles([f"method{index}" for index in range(20)]).values())) == 20
    # Ablations have figures of their own.
    known = styles(name for name in STYLES if not name.startswith("yourself-"))
    assert len({(role_of(style.colour), style.marker) for style in known.values()}) == len(known) > 20


def test_every_colour_of_a_method_has_a_light_and_a_dark_value() -> None:
    assert {role_of(style.colour) for style in STYLES.values()} <= set(ROLES)
    with themed("print"):
        assert all(to_hex(paint(style.colour)) == style.colour.lower() for style in STYLES.values())
    assert f"var(--{role_of(STYLES['yourself'].colour)})" in swatch(STYLES["yourself"])


def test_what_a_screen_reader_says_cannot_break_out() -> None:
    with panel(100) as made:
        made.axes.set_title("<b>$x$</b>")
        drawn = made.markup("name", '"><script>')
    assert 'aria-label="&#34;&gt;&lt;script&gt;"' in drawn
    assert "<b>" not in drawn
    assert "&lt;b&gt;$x$" in drawn  # a dollar sign in a name is a dollar sign


def test_numbers_for_print() -> None:
    assert number(-1.234) == "−1.23"
    assert number(-0.001) == "0.00"
    assert number(None) == "–"
    assert signed(0.5) == "+0.50"
    assert signed(-0.5) == "−0.50"
    assert signed(0.0) == "0.00"
    assert plus_minus(Spread(1.0, 0.25, 3)) == "1.00 ± 0.25"
    assert plus_minus(Spread(1.0, None, 1)) == "1.00"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


def _layers(std: float | None = None) -> list[LayerPoint]:
    kinds = [("raw", 3), ("raw", 4), ("raw", "final"), ("rectified", 4), ("rectified", 3), ("ensemble", "together")]
    return [LayerPoint(kind, place, Spread(50.0 + index, std, 3)) for index, (kind, place) in enumerate(kinds)]


@pytest.mark.parametrize("std", [None, 1.5])
def test_layers_are_drawn_over_their_blocks(std: float | None) -> None:
    points = _layers(std)
    assert layer_ticks(points) == ["3", "4", "final", "together"]
    with panel(230) as made:
        draw_layers(made.axes, points)
        bars = {bar.get_label(): bar for bar in made.axes.containers}
        assert [text.get_text() for text in made.axes.get_xticklabels()] == ["3", "4", "final", "together"]
    assert set(bars) == {"raw, as the network gives them", "rectified", "rectified layers together"}
    line = bars["rectified"].lines[0]
    assert list(line.get_ydata()) == [54.0, 53.0]  # in the order of the blocks, not of the points
    assert list(map(round, line.get_xdata())) == [0, 1]
    assert line.get_linestyle() != "None"
    assert bars["rectified layers together"].lines[0].get_linestyle() == "None"
    assert bars["rectified"].has_yerr == (std is not None)
    assert [name for _, name, _ in layer_legend({"ensemble", "raw"})] == [
        "raw, as the network gives them",
        "rectified layers together",
    ]


def test_ticks_that_would_touch_are_seen() -> None:
    assert not crowded(["1", "2", "3", "final", "ensemble"], 290)
    assert crowded([*map(str, range(12)), "final", "ensemble"], 290)


def test_the_glossary_says_the_one_rule_and_can_be_cut_down() -> None:
    terms = dict(glossary())
    assert re.search(r"p below 0\.05 by Student's t .* Holm's correction", terms["Clear"])
    assert "twice" not in " ".join(terms.values())
    assert [term for term, _ in glossary(["gAcc", "Draw"])] == ["Draw", "gAcc"]

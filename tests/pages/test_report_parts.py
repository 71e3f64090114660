"""Colours, markup and maps."""

from __future__ import annotations

import numpy as np
import pytest

from fscil.core.errors import InputError
from fscil.core.palette import STYLES
from fscil.experiments.maps import tsne_panels
from fscil.pages.kit.looks import method_styles
from fscil.pages.kit.markup import Html, element, listed, number, signed
from fscil.results.analysis import parse_analysis


def test_a_method_keeps_its_style_from_page_to_page() -> None:
    few, many = method_styles(["yourself", "prototypes"]), method_styles(["savc", "yourself", "prototypes", "alice"])
    assert few["yourself"] == many["yourself"]
    assert few["prototypes"] == many["prototypes"]
    assert method_styles(["b", "a"]) == method_styles(["a", "b"])
    styles = method_styles([f"method{index}" for index in range(20)])
    assert len(set(styles.values())) == 20
    # Ablations have figures of their own.
    known = method_styles(name for name in STYLES if not name.startswith("yourself-"))
    assert len({(style.role, style.marker) for style in known.values()}) == len(known) > 20


def test_report_and_published_figures_share_one_look() -> None:
    for name, style in method_styles(STYLES).items():
        assert (style.marker, style.dashes, style.hollow) == (
            STYLES[name].marker,
            STYLES[name].dashes,
            STYLES[name].hollow,
        )


def test_markup_escapes_all_but_markup() -> None:
    assert element("p", "a < b", Html("<i>c</i>"), None, title='"x"') == '<p title="&quot;x&quot;">a &lt; b<i>c</i></p>'
    assert element("th", "n", scope="col", data_key="k", hidden=None) == '<th scope="col" data-key="k">n</th>'


def test_numbers_for_print() -> None:
    assert number(-1.234) == "−1.23"
    assert number(-0.001) == "0.00"
    assert number(None) == "–"
    assert signed(0.5) == "+0.50"
    assert signed(-0.5) == "−0.50"
    assert signed(0.0) == "0.00"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_maps_are_deterministic_and_separate_what_is_separate() -> None:
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], 20)
    features = {"wide": rng.normal(size=(40, 8)) + 8 * classes[:, None], "thin": rng.normal(size=(40, 3))}
    features["wide"][:20, 0] -= 20
    panels = tsne_panels(features, seed=1)
    assert panels == tsne_panels(features, seed=1)
    assert [panel["label"] for panel in panels] == ["wide", "thin"]
    points = np.array(panels[0]["points"])
    gap = np.linalg.norm(points[:20].mean(axis=0) - points[20:].mean(axis=0))
    assert gap > points[:20].std() + points[20:].std()
    tsne = {"panels": panels, "class_of_point": classes.tolist(), "class_names": ["A", "B"], "novel": [False, True]}
    maps = parse_analysis({"schema": 1, "tsne": tsne}).maps
    assert maps is not None
    assert len(maps.panels[0].points) == 40


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.zeros(9), np.full((9, 3), np.nan)])
def test_maps_refuse_what_cannot_be_mapped(array: np.ndarray) -> None:
    with pytest.raises(InputError, match="The features 'x' cannot be mapped"):
        tsne_panels({"x": array}, seed=0)

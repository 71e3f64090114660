"""Two-dimensional maps of features."""

from __future__ import annotations

import numpy as np
import pytest

from fscil.core.errors import InputError
from fscil.experiments.layers import tsne_panels
from fscil.results.analysis import parse_analysis


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

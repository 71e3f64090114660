"""Result and analysis documents for the report tests, and a reader of the page they end up on."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np

from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import summary
from fscil.results.result import Result, parse_result

CLASSES = (60, *[5] * 8)


def document(
    method: str = "yourself",
    draw: int = 0,
    *,
    base: float = 84.0,
    novel: float = 60.0,
    noise: float = 1.0,
    classes: tuple[int, ...] = CLASSES,
    **changes: Any,
) -> dict[str, Any]:
    """A plausible result whose luck is shared by all methods of one draw, as it is in a real comparison."""
    luck = np.random.default_rng(draw).normal(0, noise, (len(classes), len(classes)))
    rows = [
        [float(np.clip((base - 0.5 * i if j == 0 else novel - i + j) + luck[i, j], 0, 100)) for j in range(i + 1)]
        for i in range(len(classes))
    ]
    matrix = AccuracyMatrix.from_lists(rows, classes, [20 * count for count in classes])
    titles = {"yourself": "YourSelf", "prototypes": "ViT baseline"}
    return {
        "schema": 1,
        "method": method,
        "title": titles.get(method, method),
        "recipe": "glyphs",
        "dataset": "glyphs",
        "seed": 0,
        "shots_seed": draw,
        "config": {"data": {"name": "glyphs", "shot": 5}, "shots_seed": draw, "train": {"epochs": 80}},
        "commit": "abc1234",
        "hardware": {"device": "cpu", "name": "A CPU", "cores": 2, "python": "3.11.2", "torch": "2.11.0"},
        "seconds": {"base": 200.125, "sessions": 10.0 + draw},
        "peak_memory_mb": 1200,
        "classes": list(classes),
        "test_counts": [20 * count for count in classes],
        "matrix": matrix.to_lists(),
        "metrics": dict(summary(matrix)),
        **changes,
    }


def result(method: str = "yourself", draw: int = 0, **options: Any) -> Result:
    return parse_result(document(method, draw, **options))


def pair(draws: int = 3, gain: float = 5.0, base_gain: float = 0.0, **options: Any) -> list[Result]:
    """The baseline and YourSelf on the same draws; every draw shifts the gain a little, so that it has an error."""
    results = [result("prototypes", draw, **options) for draw in range(draws)]
    for draw in range(draws):
        wobble = 0.3 * (draw - (draws - 1) / 2)
        results.append(result("yourself", draw, base=84 + base_gain + wobble, novel=60 + gain + wobble, **options))
    return results


def analysis() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    layers = [
        {
            "label": f"block {b}",
            "kind": "raw",
            "block": b,
            "aacc": 60 + b,
            "gacc_grid": 55.125,
            "base": 70 + b,
            "novel": 50,
        }
        for b in range(4, 9)
    ]
    layers.append({**layers[0], "label": "block 5", "kind": "rectified", "block": 5, "base": 84.25, "novel": 61.0})
    layers.append({**layers[0], "label": "ensemble", "kind": "ensemble", "block": None, "base": 85.5, "novel": 62.0})
    classes = [index for index in range(4) for _ in range(5)]
    panels = [{"label": label, "points": rng.normal(size=(20, 2)).round(2).tolist()} for label in ("block 5", "final")]
    names, novel = ["A", "B", "Ж", "Ω"], [False, False, True, True]
    tsne = {"panels": panels, "class_of_point": classes, "class_names": names, "novel": novel}
    return {"schema": 1, "layers": layers, "tsne": tsne}


class Page(HTMLParser):
    """Texts of elements by their data attributes, headings in order, ids and attributes seen."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: dict[tuple[str, str], str] = {}  # (data-metric, data-method) and the like
        self.headings: list[tuple[str, str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[tuple[str, Any, int]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        key = found.get("data-metric") or found.get("data-glance") or found.get("data-layer")
        if key or tag in ("h1", "h2", "h3"):
            self._open.append((tag, (key, found.get("data-method", "")) if key else None, len(self.text)))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            _, key, start = self._open.pop()
            if key is None:
                self.headings.append((tag, self.text[start:]))
            else:
                prefix = "glance:" if tag == "span" else ""
                self.cells[prefix + key[0], key[1]] = self.text[start:].replace("\xa0", " ")

    def handle_data(self, data: str) -> None:
        self.text += data

"""What figures are put together from, on a page and in print: curves with bands, rows of dots, axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fscil.core.palette import Style
from fscil.pages.kit.looks import line_look, paint


@dataclass(frozen=True)
class Line:
    """One line of a chart: a row of values per draw."""

    label: str
    runs: np.ndarray  # (draws, points)
    style: Style
    strong: bool = False

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.runs).mean(axis=0)


def draw_line(
    axes: Axes, x: Sequence[float], line: Line, *, shade: float = 0.0, every: int | list[int] = 1, size: float = 1.0
) -> None:
    """The mean over the draws; `shade` is the opacity of a band of one standard deviation."""
    runs, mean = np.asarray(line.runs), line.mean
    if shade and len(runs) > 1:
        std = runs.std(axis=0, ddof=1)
        axes.fill_between(x, mean - std, mean + std, color=paint(line.style.colour), alpha=shade, linewidth=0)
    axes.plot(x, mean, label=line.label, markevery=every, **line_look(line.style, size=size, strong=line.strong))


def draw_alpha_curves(
    axes: Axes,
    alphas: Sequence[float],
    lines: Sequence[Line],
    *,
    shade: float = 0.0,
    every: int = 10,
    size: float = 1.0,
) -> None:
    """gAcc(alpha), mean over sessions: new classes alone at the left end, every class alike at the right (figure 2a)."""
    for place, line in enumerate(lines):
        # Markers of neighbours stand at other places, so that they do not pile up.
        marks = list(range(place % 3 if every < 5 else 0, len(alphas), every))
        draw_line(axes, alphas, line, shade=shade, every=marks, size=size)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_xlabel("α, the weight of a base class (a new one weighs 1)")
    axes.set_ylabel("gAcc(α) (%)")


def draw_dot(axes: Axes, x: float, y: float, error: float | None, style: Style, *, size: float = 1.2) -> None:
    """A value with a horizontal bar for its error."""
    look = {**line_look(style, size=size), "linestyle": "none"}
    axes.errorbar([x], [y], xerr=None if error is None else [error], elinewidth=1.5, **look)


def name_rows(axes: Axes, titles: Sequence[str]) -> None:
    """Rows from top to bottom, named at the left."""
    axes.set_yticks(range(len(titles)), titles, fontsize=10, color=paint("ink"))
    axes.set_ylim(len(titles) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def label_width(titles: Sequence[str]) -> float:
    """Room for the longest title at the size of the labels; DejaVu's letters are at most this wide on average."""
    return 14 + 6.1 * max((len(title) for title in titles), default=0)


def apart(values: Sequence[float], gap: float, limits: tuple[float, float]) -> list[float]:
    """Places for labels: near their values, in their order, at least `gap` apart, and within the limits if they fit."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    # Less `gap` times the rank the places only have to be non-decreasing: isotonic regression by pooling neighbours.
    pools: list[tuple[float, int]] = []  # (mean, count)
    for rank, index in enumerate(order):
        mean, count = values[index] - gap * rank, 1
        while pools and pools[-1][0] > mean:
            before, size = pools.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        pools.append((mean, count))
    highest = limits[1] - gap * (len(values) - 1)
    level = [max(min(mean, highest), limits[0]) for mean, count in pools for _ in range(count)]
    places = [0.0] * len(values)
    for rank, index in enumerate(order):
        places[index] = level[rank] + gap * rank
    return places

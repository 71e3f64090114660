"""What figures are put together from, on a page and in print: curves with bands, rows of dots, axes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from fscil.core.palette import BLUE, GREEN, PURPLE, STYLES, VERMILLION, Style
from fscil.pages.kit.looks import line_look, paint
from fscil.results.significance import Spread


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
    """gAcc(alpha), mean over sessions: only new classes at the left end, all alike at the right (figure 2a)."""
    for place, line in enumerate(lines):
        # Markers of neighbours stand at other places, so that they do not pile up.
        marks = list(range(place % 3 if every < 5 else 0, len(alphas), every))
        draw_line(axes, alphas, line, shade=shade, every=marks, size=size)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_xlabel("α, the weight of a base class (a new one weighs 1)")
    axes.set_ylabel("gAcc(α) (%)")


@dataclass(frozen=True)
class LayerPoint:
    """The accuracy with one layer's features, or with several together."""

    kind: str  # of LAYER_STYLES
    place: int | str  # the block of the network; a name where it is not of one block
    value: Spread


# The raw network is the baseline, the rectified layers together are YourSelf: drawn as those are everywhere.
LAYER_STYLES = {
    "raw": STYLES["prototypes"],
    "rectified": Style(VERMILLION, "s"),
    "raw ensemble": Style(BLUE, "D", hollow=True),
    "ensemble": STYLES["yourself"],
    "whitened": Style(GREEN, "^"),
    "whole": Style(PURPLE, "D"),
}
LAYER_NAMES = {
    "raw": "raw, as the network gives them",
    "rectified": "rectified",
    "raw ensemble": "raw layers together",
    "ensemble": "rectified layers together",
    "whitened": "whitened, together",
    "whole": "rectified and whitened together",
}
JOINED_LAYERS = ("raw", "rectified")  # those with a point per block
_SHIFTS = {"raw": -0.07, "rectified": 0.07, "raw ensemble": -0.12, "ensemble": 0.12}


def layer_legend(kinds: Collection[str]) -> list[tuple[Style, str, bool]]:
    """Of the kinds that are drawn: style, name, and whether it is a line."""
    shown = [kind for kind in LAYER_STYLES if kind in kinds]
    return [(LAYER_STYLES[kind], LAYER_NAMES[kind], kind in JOINED_LAYERS) for kind in shown]


def layer_ticks(points: Sequence[LayerPoint]) -> list[str]:
    """The places along the axis: blocks in order, then everything else as listed."""
    names = [str(place) for place in _layer_places(points)]
    return [name if len(name) <= 10 else f"{name[:9]}…" for name in names]


def crowded(ticks: Sequence[str], width: float) -> bool:
    """Whether neighbouring tick labels would touch on an axis of this width in points."""
    return any(2.9 * (len(a) + len(b)) + 4 > width / len(ticks) for a, b in pairwise(ticks))


def draw_layers(
    axes: Axes,
    points: Sequence[LayerPoint],
    *,
    names: Mapping[str, str] = LAYER_NAMES,
    upright: bool = False,
    size: float = 1.0,
) -> None:
    """Over the blocks of the network: raw and rectified as lines, and what is made of several layers at the right
    (table 6 and figure A4). `upright` turns the ticks, for places with long names."""
    places = {place: x for x, place in enumerate(_layer_places(points))}
    for kind, style in LAYER_STYLES.items():
        chosen = sorted(
            (places[point.place], point.value.mean, point.value.std) for point in points if point.kind == kind
        )
        if not chosen:
            continue
        x, mean, std = zip(*chosen, strict=True)
        spread = None if None in std else std
        # Bars of raw and rectified features of one place would hide each other.
        shift = 0.0 if spread is None else _SHIFTS.get(kind, 0.0)
        look = line_look(style, size=size) | ({} if kind in JOINED_LAYERS else {"linestyle": "none"})
        if kind == "ensemble":
            axes.axhline(max(mean), color=paint(style.colour), linewidth=0.8, dashes=(1, 2))
        axes.errorbar([place + shift for place in x], mean, yerr=spread, elinewidth=1.4, label=names[kind], **look)
    axes.set_xticks(range(len(places)), layer_ticks(points))
    for place, tick in zip(places, axes.get_xticklabels(), strict=True):
        tick.set_rotation(90 if upright and isinstance(place, str) else 0)
    axes.set_xlim(-0.4, len(places) - 0.6)
    axes.margins(y=0.12)
    axes.set_xlabel("block of the network whose features are used")


def _layer_places(points: Sequence[LayerPoint]) -> list[int | str]:
    blocks = sorted({point.place for point in points if isinstance(point.place, int)})
    return [*blocks, *dict.fromkeys(point.place for point in points if isinstance(point.place, str))]


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

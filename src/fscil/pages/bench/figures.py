"""Figures of a bench: accuracies at a glance, gAcc over alpha, the two rankings, differences with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fscil.pages.kit.looks import Style, colour
from fscil.pages.kit.markup import Html, number, signed
from fscil.pages.kit.svg import drawing
from fscil.results.bench import ALPHAS, HEADLINE, SCORES, Bench
from fscil.results.significance import Comparison

WIDE = 720  # of a figure that takes the page's whole width
GROUP_STYLES = {
    "novel": Style("c3", "D"),
    HEADLINE: Style("c0", "o"),
    "base": Style("c2", "^"),
}
GROUP_WORDS = {"novel": "new classes", HEADLINE: "gAcc, grid: the balance of both", "base": "base classes"}
_BANDS_UP_TO = 4  # methods: the bands of more would hide the lines


def overview_figure(bench: Bench, methods: Sequence[str]) -> Html:
    """One line per method from its accuracy on new classes to that on base classes, with gAcc between."""
    titles = [_dated(bench, method) for method in methods]
    with drawing(58 + 23 * len(methods), (_label_width(titles), 14, 34, 20), WIDE) as panel:
        axes, told = panel.axes, []
        for method, role, word in ((bench.baseline, "c1", "class means"), (bench.floor, "c7", "learning nothing")):
            if method in methods:
                mean = bench.mean(method, HEADLINE)
                axes.axvline(mean, color=colour(role), linewidth=1.0, dashes=(3, 2), zorder=0)
                axes.text(mean, -0.75, word, ha="center", fontsize=8.5, color=colour(role))
        for place, method in enumerate(methods):
            values = {key: bench.spread(method, key) for key in GROUP_STYLES}
            known = {key: value for key, value in values.items() if value is not None}
            ends = [value.mean for value in known.values()]
            axes.plot([min(ends), max(ends)], [place, place], color=colour("line"), linewidth=3, zorder=1)
            for key, value in known.items():
                _dot(axes, value.mean, place, value.std, GROUP_STYLES[key])
            told.append(f"{bench.title(method)}: " + ", ".join(f"{k} {number(v.mean, 1)}" for k, v in known.items()))
        _rows(axes, titles)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("accuracy (%), mean over the sessions")
        return panel.markup("bench-overview", f"Accuracies per method. {'; '.join(told)}.")


def curves_figure(bench: Bench, methods: Sequence[str], styles: Mapping[str, Style]) -> Html:
    """gAcc(alpha) of all methods, named at their right end."""
    height = max(320, 70 + 15 * len(methods))
    with drawing(height, (44, 172, 36, 8), WIDE) as panel:
        axes, ends, told = panel.axes, {}, []
        for method in reversed(methods):  # the best is drawn last, on top
            row = bench.row(method)
            assert row is not None
            runs = np.array(bench.curves(row))
            mean, style = runs.mean(axis=0), styles[method]
            if len(runs) > 1 and len(methods) <= _BANDS_UP_TO:
                std = runs.std(axis=0, ddof=1)
                axes.fill_between(ALPHAS, mean - std, mean + std, color=style.colour, alpha=0.14, linewidth=0)
            reference = method in (bench.baseline, bench.floor)
            axes.plot(ALPHAS, mean, linewidth=2.6 if reference else 1.5, markevery=8, **_look(style, 0.8 * style.size))
            ends[method] = float(mean[-1])
            told.append(f"{bench.title(method)} from {number(mean[0], 1)} to {number(mean[-1], 1)} %")
        low, high = _curve_limits(bench, methods)
        axes.set_ylim(low, high)
        axes.set_xlim(-0.02, 1.01)
        gap = 13 * (high - low) / (axes.get_position().height * height)  # of labels, in units of the axis
        places = apart(list(ends.values()), gap, (low, high))
        for (method, end), place in zip(ends.items(), places, strict=True):
            style = styles[method]
            text = f"{bench.title(method)} {number(bench.mean(method, 'gacc_exact'), 1)}"
            weight = "bold" if method in (bench.baseline, bench.floor) else "normal"
            axes.plot([1.01, 1.06], [end, place], color=style.colour, linewidth=0.8, clip_on=False)
            axes.text(1.068, place, text, fontsize=9, va="center", fontweight=weight)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set_xlabel("α, the weight of a base class (a new one weighs 1)")
        axes.set_ylabel("gAcc(α) (%)")
        return panel.markup("bench-curves", f"Line chart of gAcc over alpha from 0 to 1: {'; '.join(told)}.")


def slope_figure(bench: Bench) -> Html:
    """Ranking by aAcc on the left, by gAcc on the right; who rises and who falls is coloured."""
    left, right = bench.ranking("aacc"), bench.ranking(HEADLINE)
    titles = {method: bench.title(method) for method in left}
    side = _label_width([f"{title} 00.0" for title in titles.values()]) + 20
    with drawing(40 + 23 * len(left), (side, side, 6, 30), 2 * side + 150) as panel:
        axes, told = panel.axes, []
        for method in left:
            places = left.index(method), right.index(method)
            role = move_role(places[0] - places[1])
            axes.plot(
                [0, 1], places, color=colour(role), linewidth=1.3 if role == "muted" else 2.2,
                marker="o", markersize=5, markeredgecolor=colour("paper"), zorder=1 if role == "muted" else 2,
            )  # fmt: skip
            weight = "bold" if method in (bench.baseline, bench.floor) else "normal"
            for end, key in enumerate(("aacc", HEADLINE)):
                text, side_of = f"{titles[method]} {number(bench.mean(method, key), 1)}", -1 if end == 0 else 1
                align = "left" if end else "right"
                rank = str(places[end] + 1)
                axes.text(end + 0.05 * side_of, places[end], rank, ha=align, va="center", color=colour("muted"))
                axes.text(end + 0.19 * side_of, places[end], text, ha=align, va="center", fontweight=weight)
            told.append(f"{titles[method]} {places[0] + 1} and {places[1] + 1}")
        for x, words in ((0, "by aAcc"), (1, "by gAcc")):
            axes.text(x, -1.05, words, ha="center", va="center", fontsize=10.5, fontweight="bold")
        axes.set_ylim(len(left) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.axis("off")
        for artist in (*axes.lines, *axes.texts):
            artist.set_clip_on(False)
        return panel.markup("bench-ranks", f"Ranks by aAcc and by gAcc: {'; '.join(told)}.")


def move_role(places: int) -> str:
    """The colour of a move: up, down, or not worth one."""
    if abs(places) < 2:
        return "muted"
    return "c2" if places > 0 else "c0"


def differences_figure(bench: Bench, comparisons: Sequence[Comparison], key: str) -> Html:
    """Mean difference to the baseline with its 95 % interval; filled where it stays clear after the correction."""
    titles = [bench.title(comparison.method) for comparison in comparisons]
    with drawing(48 + 21 * len(titles), (_label_width(titles), 12, 36, 6), 400) as panel:
        axes, told = panel.axes, []
        axes.axvline(0, color=colour("c1"), linewidth=1.2, dashes=(3, 2), zorder=0)
        for place, c in enumerate(comparisons):
            role = ("c2" if c.mean > 0 else "c0") if c.clear else "muted"
            _dot(axes, c.mean, place, c.half, Style(role, "o", hollow=not c.clear))
            interval = "" if c.half is None else f" ± {number(c.half, 2)}"
            told.append(f"{bench.title(c.method)} {signed(c.mean)}{interval}")
        _rows(axes, titles)
        axes.margins(x=0.08)
        axes.set_xlabel(f"{SCORES[key]}, points above or below plain class means")
        return panel.markup(f"bench-differences-{key}", f"Differences in {SCORES[key]}: {'; '.join(told)}.")


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


def _curve_limits(bench: Bench, methods: Sequence[str]) -> tuple[float, float]:
    """Of all curves but the floor's, whose low start would press the others into one line."""
    chosen = [m for m in methods if m != bench.floor] or list(methods)
    rows = [row for row in bench.rows if row.method in chosen]
    means = np.array([np.mean(bench.curves(row), axis=0) for row in rows])
    ends = [bench.mean(method, "aacc") for method in methods]
    low, high = min(float(means.min()), *ends), max(float(means.max()), *ends)
    return low - 0.06 * (high - low) - 0.5, high + 0.06 * (high - low) + 0.5


def _dated(bench: Bench, method: str) -> str:
    row = bench.row(method)
    return f"{row.title} ’{row.year % 100:02d}" if row and row.year else bench.title(method)


def _dot(axes: Axes, x: float, y: float, error: float | None, style: Style) -> None:
    axes.errorbar(
        [x],
        [y],
        xerr=None if error is None else [error],
        elinewidth=1.5,
        linestyle="none",
        color=style.colour,
        marker=style.marker,
        markersize=6.5,
        markerfacecolor=style.face,
        markeredgecolor=style.edge,
        markeredgewidth=1.4 if style.hollow else 0.8,
    )


def _look(style: Style, size: float) -> dict[str, Any]:
    return {
        "color": style.colour,
        "linestyle": style.line,
        "marker": style.marker,
        "markersize": size,
        "markerfacecolor": style.face,
        "markeredgecolor": style.edge,
        "markeredgewidth": 0.8,
    }


def _rows(axes: Axes, titles: Sequence[str]) -> None:
    axes.set_yticks(range(len(titles)), titles, fontsize=10, color=colour("ink"))
    axes.set_ylim(len(titles) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _label_width(titles: Sequence[str]) -> float:
    """Room for the longest title at the size of the labels; DejaVu's letters are at most this wide on average."""
    return 14 + 6.1 * max((len(title) for title in titles), default=0)

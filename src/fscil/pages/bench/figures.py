"""Figures of a bench: accuracies at a glance, gAcc over alpha, the two rankings, differences with their intervals."""

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from fscil.core.palette import Style
from fscil.metrics import gacc_curve
from fscil.metrics.names import HEADLINE, label
from fscil.pages.kit.drawings import Line, apart, draw_alpha_curves, draw_dot, label_width, name_rows
from fscil.pages.kit.looks import paint
from fscil.pages.kit.prose import number, signed
from fscil.pages.kit.svg import panel
from fscil.results.bench import Bench
from fscil.results.comparison import MethodRow

ALPHAS = tuple(k / 40 for k in range(41))
GROUPS = {
    "novel": (Style("c3", "D"), "new classes"),
    HEADLINE: (Style("c0", "o"), f"{label(HEADLINE)}: the balance of both"),
    "base": (Style("c2", "^"), "base classes"),
}
VERDICTS = {
    "above": (Style("c2", "o"), "clearly above"),
    "below": (Style("c0", "o"), "clearly below"),
    "not told apart": (Style("muted", "o", hollow=True), "not told apart"),
}
MOVES = {
    "c2": (Style("c2", "o"), "gains two places or more"),
    "c0": (Style("c0", "o"), "loses as many"),
    "muted": (Style("muted", "o"), "moves by one at most"),
}
_WIDE = 720  # of a figure that takes the page's whole width
_BANDS_UP_TO = 4  # methods: the bands of more would hide the lines


def overview_figure(bench: Bench) -> Markup:
    """One line per method from its accuracy on new classes to that on base classes, with gAcc between."""
    rows = bench.comparison.ranking()
    titles = [_dated(bench, row) for row in rows]
    with panel(58 + 23 * len(rows), (label_width(titles), 14, 34, 20), _WIDE) as drawing:
        axes, spoken = drawing.axes, []
        for method, role, word in ((bench.baseline, "c1", "class means"), (bench.floor, "c7", "learning nothing")):
            if bench.entry(method):
                mean = bench.comparison.row(method).mean(HEADLINE)
                axes.axvline(mean, color=paint(role), linewidth=1.0, dashes=(3, 2), zorder=0)
                axes.text(mean, -0.75, word, ha="center", fontsize=8.5, color=paint(role))
        for place, row in enumerate(rows):
            known = {key: value for key in GROUPS if (value := row.cells[key])}
            ends = [value.mean for value in known.values()]
            axes.plot([min(ends), max(ends)], [place, place], color=paint("line"), linewidth=3, zorder=1)
            for key, value in known.items():
                draw_dot(axes, value.mean, place, value.std, GROUPS[key][0])
            spoken.append(f"{row.title}: " + ", ".join(f"{label(k)} {number(v.mean, 1)}" for k, v in known.items()))
        name_rows(axes, titles)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("accuracy (%), mean over the sessions")
        return drawing.markup("bench-overview", f"Accuracies per method. {'; '.join(spoken)}.")


def curves_figure(bench: Bench, styles: Mapping[str, Style]) -> Markup:
    """gAcc(alpha) of all methods, named at their right end."""
    rows = bench.comparison.ranking()[::-1]  # the best is drawn last, on top
    lines = {row.method: _curve(bench, row, styles[row.method]) for row in rows}
    height = max(320, 70 + 15 * len(rows))
    with panel(height, (44, 172, 36, 8), _WIDE) as drawing:
        axes = drawing.axes
        shade = 0.14 if len(rows) <= _BANDS_UP_TO else 0.0
        draw_alpha_curves(axes, ALPHAS, list(lines.values()), shade=shade, every=8, size=0.8)
        low, high = _limits(bench, lines)
        axes.set_ylim(low, high)
        axes.set_xlim(-0.02, 1.01)
        gap = 13 * (high - low) / (axes.get_position().height * height)  # of labels, in units of the axis
        places = apart([float(line.mean[-1]) for line in lines.values()], gap, (low, high))
        for row, line, place in zip(rows, lines.values(), places, strict=True):
            weight = "bold" if line.strong else "normal"
            text = f"{row.title} {number(row.mean('gacc_exact'), 1)}"
            axes.plot(
                [1.01, 1.06], [line.mean[-1], place], color=paint(line.style.colour), linewidth=0.8, clip_on=False
            )
            axes.text(1.068, place, text, fontsize=9, va="center", fontweight=weight)
        ends = (f"{e.label} from {number(e.mean[0], 1)} to {number(e.mean[-1], 1)} %" for e in lines.values())
        return drawing.markup("bench-curves", f"Line chart of gAcc over alpha from 0 to 1: {'; '.join(ends)}.")


def ranks_figure(bench: Bench) -> Markup:
    """Ranking by aAcc on the left, by gAcc on the right; who rises and who falls is coloured."""
    left, right = bench.comparison.ranking("aacc"), bench.comparison.ranking(HEADLINE)
    side = label_width([f"{row.title} 00.0" for row in left]) + 20
    with panel(40 + 23 * len(left), (side, side, 6, 30), 2 * side + 150) as drawing:
        axes, spoken = drawing.axes, []
        for row in left:
            places = left.index(row), right.index(row)
            role = move_role(places[0] - places[1])
            axes.plot(
                [0, 1], places, color=paint(role), linewidth=1.3 if role == "muted" else 2.2,
                marker="o", markersize=5, markeredgecolor=paint("paper"), zorder=1 if role == "muted" else 2,
            )  # fmt: skip
            weight = "bold" if _is_reference(bench, row) else "normal"
            for end, (key, align, outwards) in enumerate((("aacc", "right", -1), (HEADLINE, "left", 1))):
                rank, text = str(places[end] + 1), f"{row.title} {number(row.mean(key), 1)}"
                axes.text(end + 0.05 * outwards, places[end], rank, ha=align, va="center", color=paint("muted"))
                axes.text(end + 0.19 * outwards, places[end], text, ha=align, va="center", fontweight=weight)
            spoken.append(f"{row.title} {places[0] + 1} and {places[1] + 1}")
        for x, title in ((0, "by aAcc"), (1, "by gAcc")):
            axes.text(x, -1.05, title, ha="center", va="center", fontsize=10.5, fontweight="bold")
        axes.set_ylim(len(left) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.axis("off")
        for artist in (*axes.lines, *axes.texts):
            artist.set_clip_on(False)
        return drawing.markup("bench-ranks", f"Ranks by aAcc and by gAcc: {'; '.join(spoken)}.")


def move_role(places: int) -> str:
    """The colour of a move: up, down, or not worth one."""
    if abs(places) < 2:
        return "muted"
    return "c2" if places > 0 else "c0"


def differences_figure(bench: Bench, key: str) -> Markup:
    """Mean difference to the baseline with its 95 % interval; filled where it stays clear after the correction."""
    # Without the floor: its distance would squeeze all others into a corner.
    rows = [row for row in bench.comparison.ranking() if key in row.differences and row.method != bench.floor]
    titles = [row.title for row in rows]
    with panel(48 + 21 * len(titles), (label_width(titles), 12, 36, 6), 400) as drawing:
        axes, spoken = drawing.axes, []
        axes.axvline(0, color=paint("c1"), linewidth=1.2, dashes=(3, 2), zorder=0)
        for place, row in enumerate(rows):
            gap = row.differences[key]
            draw_dot(axes, gap.mean, place, gap.half, VERDICTS[gap.verdict][0])
            interval = "" if gap.half is None else f" (95 % interval: {number(gap.half)} either side)"
            spoken.append(f"{row.title} {signed(gap.mean)}{interval}")
        name_rows(axes, titles)
        axes.margins(x=0.08)
        axes.set_xlabel(f"{label(key)}, points above or below plain class means")
        return drawing.markup(f"bench-differences-{key}", f"Differences in {label(key)}: {'; '.join(spoken)}.")


def _curve(bench: Bench, row: MethodRow, style: Style) -> Line:
    runs = np.array([gacc_curve(result.matrix, ALPHAS) for result in row.results])
    return Line(row.title, runs, style, strong=_is_reference(bench, row))


def _limits(bench: Bench, lines: Mapping[str, Line]) -> tuple[float, float]:
    """Of all curves but the floor's, whose low start would press the others into one line; its right end counts."""
    chosen = [line for method, line in lines.items() if method != bench.floor] or list(lines.values())
    values = np.concatenate([*(line.mean for line in chosen), *(line.mean[-1:] for line in lines.values())])
    low, high = float(values.min()), float(values.max())
    return low - 0.06 * (high - low) - 0.5, high + 0.06 * (high - low) + 0.5


def _is_reference(bench: Bench, row: MethodRow) -> bool:
    return row.method in (bench.baseline, bench.floor)


def _dated(bench: Bench, row: MethodRow) -> str:
    entry = bench.entry(row.method)
    return f"{row.title} ’{entry.year % 100:02d}" if entry and entry.year else row.title

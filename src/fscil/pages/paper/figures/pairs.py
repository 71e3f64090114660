"""Two methods, two metrics (figure 1): who is ahead depends on whom one asks."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fscil.core.errors import InputError
from fscil.core.palette import styles
from fscil.pages.paper.figures.canvas import line_look, new_figure
from fscil.pages.paper.figures.panels import task_ticks
from fscil.paper.series import Series, published

_HATCHES = ("", "////")


def pair_figure(yours: Sequence[Series]) -> Figure:
    """aAcc and gAcc per task, and the accuracy on every task at the end. Without runs: the paper's own example."""
    if len(yours) not in (0, 2):
        raise InputError(f"The figure 'pair' compares two methods, {len(yours)} were given; give results of two.")
    series = list(yours) or published("mini", ("clom", "c-fscil"))
    if series[0].classes != series[1].classes:
        raise InputError(
            f"{series[0].title} and {series[1].title} have different classes per session; compare runs of one plan."
        )
    figure, (left, right) = new_figure(2, height=3.6, ratios=[1.15, 1.0])
    _two_metrics(left, series)
    _final_bars(right, series)
    return figure


def _two_metrics(axes: Axes, series: Sequence[Series]) -> None:
    chosen = styles(entry.key for entry in series)
    tasks = len(series[0].classes)
    ends = []
    for entry in series:
        colour = chosen[entry.key].colour
        style = line_look(chosen[entry.key])
        for metric, values, mean in (
            ("aAcc", entry.aacc_per_session(), entry.aacc()[0]),
            ("gAcc", entry.gacc_per_session(), entry.gacc()[0]),
        ):
            dotted = metric == "aAcc"
            style |= {"linestyle": (0, (1.0, 1.5)) if dotted else "-", "markerfacecolor": "white" if dotted else colour}
            axes.plot(range(1, tasks + 1), values, label=f"{entry.label}, {metric}", **style)
            ends.append((values[-1], f"{metric} {mean:.2f}", colour))
    _spread_labels(axes, tasks + 0.25, ends)
    axes.set_title("(a) aAcc (dotted) and gAcc (solid) per task")
    axes.set_xlabel("task")
    axes.set_ylabel("accuracy after the task (%)")
    task_ticks(axes, tasks)
    axes.set_xlim(0.7, tasks + 2.1)  # room for the means at the right
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize=8)


def _spread_labels(axes: Axes, x: float, ends: list[tuple[float, str, str]]) -> None:
    """Overall values at the right end of their lines, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.06
    last = float("-inf")
    for y, text, colour in sorted(ends):
        last = max(y, last + gap)
        axes.text(x, last, text, color=colour, va="center", fontsize=8)


def _final_bars(axes: Axes, series: Sequence[Series]) -> None:
    """Every task where the runs tell them apart; the paper prints only base and the mean of all novel classes."""
    detailed = all(entry.yours for entry in series)
    names = ["base", *(str(task) for task in range(2, len(series[0].classes) + 1))] if detailed else ["base", "novel"]
    chosen = styles(entry.key for entry in series)
    for i, entry in enumerate(series):
        heights = entry.last_row() if detailed else [entry.base_per_session()[-1], entry.novel_per_session()[-1]]
        places = [j + (i - 0.5) * 0.4 for j in range(len(names))]
        colour = chosen[entry.key].colour
        bars = axes.bar(places, heights, 0.38, label=entry.label, color=colour, hatch=_HATCHES[i], edgecolor="white")
        if not detailed:
            axes.bar_label(bars, fmt="%.1f", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.grid(axis="x", visible=False)
    axes.set_title("(b) accuracy after the last task")
    axes.set_xlabel("task" if detailed else "classes")
    axes.set_ylabel("accuracy (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=8)

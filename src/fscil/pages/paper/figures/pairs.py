"""Two methods, two metrics (figure 1): who is ahead depends on whom one asks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fscil.core.errors import InputError
from fscil.core.palette import DOTTED, SOLID, styles
from fscil.pages.kit.drawings import Line, apart, draw_line
from fscil.pages.kit.looks import paint
from fscil.pages.paper.figures.canvas import new_figure
from fscil.pages.paper.figures.panels import task_axis
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
        style = chosen[entry.key]
        for metric, values, overall, look in (
            ("aAcc", entry.aacc_per_session(), entry.aacc, replace(style, dashes=DOTTED, hollow=True)),
            ("gAcc", entry.gacc_per_session(), entry.gacc, replace(style, dashes=SOLID, hollow=False)),
        ):
            line = Line(f"{entry.label}, {metric}", values, look)
            draw_line(axes, range(1, tasks + 1), line)
            ends.append((float(line.mean[-1]), f"{metric} {overall.mean:.2f}", style.colour))
    # Overall values at the right end of their lines, moved apart where they would overlap.
    low, high = axes.get_ylim()
    places = apart([y for y, _, _ in ends], (high - low) * 0.06, (low, high))
    for y, (_, text, colour) in zip(places, ends, strict=True):
        axes.text(tasks + 0.35, y, text, color=paint(colour), va="center", fontsize=8)
    axes.set_title("(a) aAcc (dotted) and gAcc (solid) per task")
    task_axis(axes, tasks, "accuracy after the task (%)")
    axes.set_xlim(0.7, tasks + 2.3)  # room for the means at the right
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize=8)


def _final_bars(axes: Axes, series: Sequence[Series]) -> None:
    """Every task where the runs tell them apart; the paper prints only base and the mean of all novel classes."""
    detailed = all(entry.yours for entry in series)
    names = ["base", *(str(task) for task in range(2, len(series[0].classes) + 1))] if detailed else ["base", "novel"]
    chosen = styles(entry.key for entry in series)
    for i, entry in enumerate(series):
        last = entry.last_row().mean(axis=0)
        heights = last if detailed else [last[0], entry.novel_per_session().mean(axis=0)[-1]]
        places = [j + (i - 0.5) * 0.4 for j in range(len(names))]
        look: dict[str, Any] = {"color": paint(chosen[entry.key].colour), "edgecolor": paint("paper")}
        bars = axes.bar(places, heights, 0.38, label=entry.label, hatch=_HATCHES[i], **look)
        if not detailed:
            axes.bar_label(bars, fmt="%.1f", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.margins(y=0.1)
    axes.grid(axis="x", visible=False)
    axes.set_title("(b) after the last task")
    axes.set_xlabel("task" if detailed else "classes")
    axes.set_ylabel("accuracy (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=8)

"""Many methods in one figure: per data set (figures 5, 6 and A3) and with the corner cases (figures 2 and A1)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fscil.core.palette import styles
from fscil.pages.paper.figures.canvas import line_look, new_figure
from fscil.pages.paper.figures.panels import alpha_panel, overall_panel, ranked_legend, session_panel, task_ticks
from fscil.paper.printed import datasets, method_title, table
from fscil.paper.series import Series, corner_cases, published

_SHOWN_WITH_CORNERS = ("nc-fscil", "savc", "prototypes", "yourself")  # as in the paper, as far as printed


def comparison(dataset: str, yours: Sequence[Series]) -> Figure:
    """gAcc against alpha and gAcc per task, for every method whose novel-class row is printed."""
    series = [*published(dataset), *yours]
    figure, (left, right) = new_figure(2, height=3.7)
    alpha_panel(left, series, f"(a) {datasets()[dataset].title}: gAcc against α")
    session_panel(right, series, "gAcc", "(b) gAcc per task")
    ranked_legend(figure, left, series)
    return figure


def corner_figure(yours: Sequence[Series]) -> Figure:
    """Lazy, Greedy and Greedy-NF beside real methods: what aAcc cannot see."""
    series = [*published("mini", _SHOWN_WITH_CORNERS), *corner_cases(), *yours]
    figure, (left, middle, right) = new_figure(3, height=3.5)
    alpha_panel(left, series, "(a) gAcc against α")
    session_panel(middle, series, "gAcc", "(b) gAcc per task")
    session_panel(right, series, "aAcc", "(c) aAcc per task")
    left.set_xticks([0, 0.5, 1], ["0\nnovel only", "0.5", "1\naAcc"])
    for axes in (middle, right):
        axes.set_xticks(range(1, len(series[0].classes) + 1, 2))
    ranked_legend(figure, left, series, below=True, title="gAcc (grid), miniImageNet")
    return figure


def printed_comparison(name: str) -> Figure:
    """Without novel-class rows only the printed values can be drawn: aAcc per task, and aAcc beside gAcc."""
    printed = table(name)
    rows = sorted((row for row in printed.rows if row.cells["gacc"].known), key=lambda row: row.cells["gacc"].value)
    chosen = styles(row.key for row in rows)
    figure, (left, right) = new_figure(2, height=4.2)
    for row in rows[::-1]:
        values = [cell.value for cell in row.sessions]
        left.plot(range(1, len(values) + 1), values, label=method_title(row.key), **line_look(chosen[row.key]))
    left.set_title(f"(a) {datasets()[printed.dataset].title}: aAcc per task, as printed")
    left.set_xlabel("task")
    left.set_ylabel("aAcc after the task (%)")
    task_ticks(left, datasets()[printed.dataset].sessions)
    overall_panel(right, printed, rows[::-1], values=False)
    right.set_title("(b) overall, as printed")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, handlelength=2.8)
    return figure

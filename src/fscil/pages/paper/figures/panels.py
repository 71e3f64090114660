"""The panels that figures are put together from."""

import re
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fscil.core.palette import BLUE, DASHED, VERMILLION, Style, styles
from fscil.pages.kit.drawings import Line, draw_alpha_curves, draw_line
from fscil.pages.kit.looks import line_look, paint
from fscil.paper.audit import doubtful_values
from fscil.paper.finding import COLUMNS
from fscil.paper.printed import PrintedRow, PrintedTable, datasets, method_title
from fscil.paper.series import Series

# The two metrics where they share a panel.
METRIC_STYLES = {"aacc": Style(BLUE, "s", DASHED, hollow=True), "gacc": Style(VERMILLION, "o")}


def alpha_panel(axes: Axes, series: Sequence[Series], title: str, *, narrow: bool = False) -> None:
    """gAcc against alpha, mean over sessions: novel classes only on the left, all classes alike on the right."""
    draw_alpha_curves(axes, series[0].curve()[0], _lines(series, lambda entry: entry.curve()[1]), every=3)
    axes.set_title(title)
    # Shorter than on a page, where a panel is wider.
    axes.set_xlabel("α, the weight of a base class")
    axes.set_ylabel("gAcc(α), mean over tasks (%)")
    between = {} if narrow else {0.25: "0.25", 0.75: "0.75"}
    ticks = {0: "0\nnovel only", 0.5: "0.5", 1: "1\naAcc", **between}
    axes.set_xticks(list(ticks), list(ticks.values()))


def session_panel(axes: Axes, series: Sequence[Series], metric: str, title: str, *, narrow: bool = False) -> None:
    """aAcc or gAcc after each task."""
    for line in _lines(series, lambda entry: getattr(entry, f"{metric}_per_session")()):
        draw_line(axes, range(1, len(line.mean) + 1), line)
    axes.set_title(title)
    tasks = max(len(entry.classes) for entry in series)
    task_axis(axes, tasks, f"{COLUMNS[metric]} after the task (%)", step=2 if narrow and tasks > 6 else 1)


def printed_panel(axes: Axes, printed: PrintedTable, rows: Sequence[PrintedRow]) -> None:
    """aAcc after each task, as printed."""
    chosen = styles(row.key for row in rows)
    for row in rows:
        values = [cell.value for cell in row.sessions]
        line = Line(formula(method_title(row.key)), np.array([values]), chosen[row.key])
        draw_line(axes, range(1, len(values) + 1), line)
    plan = datasets()[printed.dataset]
    axes.set_title(f"(a) {plan.title}: aAcc per task, as printed")
    task_axis(axes, plan.sessions, "aAcc after the task (%)")


def task_axis(axes: Axes, tasks: int, label: str, *, step: int = 1) -> None:
    axes.set_xticks(range(1, tasks + 1, step))
    axes.set_xlim(0.7, tasks + 0.3)
    axes.set_xlabel("task")
    axes.set_ylabel(label)


def ranked_legend(figure: Figure, axes: Axes, series: Sequence[Series], *, title: str, below: bool = False) -> None:
    """Methods by their gAcc, best first, with the number: beside the panels or below them."""
    order = sorted(range(len(series)), key=lambda i: -series[i].gacc.mean)
    handles = axes.get_legend_handles_labels()[0]
    labels = [f"{series[i].label}  {series[i].gacc.mean:.2f}" for i in order]
    columns = max(1, min(4, len(series), 110 // (max(map(len, labels)) + 9)))  # as many as fit into the width
    place = {"loc": "outside lower center", "ncols": columns} if below else {"loc": "outside right upper"}
    figure.legend([handles[i] for i in order], labels, title=title, handlelength=4.0, **place)


def overall_panel(axes: Axes, printed: PrintedTable, rows: Sequence[PrintedRow], *, values: bool) -> None:
    """Printed gAcc and aAcc of every row, first row on top; what contradicts its own row gets a question mark."""
    doubtful = doubtful_values(printed)
    for y, row in enumerate(rows):
        found = {column: row.cells[column].value for column in METRIC_STYLES}
        axes.plot(list(found.values()), [y, y], color=paint("line"), linewidth=1.0, zorder=1)
        for column, value in found.items():
            style = METRIC_STYLES[column]
            look = {**line_look(style), "linestyle": "none"}
            axes.plot(value, y, label=COLUMNS[column] if y == 0 else None, **look)
            text = f"{value:.2f}" if values else ""
            text += "?" if (row.key, column) in doubtful else ""
            side = -1 if value == min(found.values()) else 1
            axes.annotate(
                text, (value, y), xytext=(6 * side, 0), textcoords="offset points",
                ha="right" if side < 0 else "left", va="center", fontsize=8, color=paint(style.colour),
            )  # fmt: skip
    if any(key in {row.key for row in rows} for key, _ in doubtful):
        axes.plot([], [], linestyle="none", marker="$?$", color=paint("ink"), label="contradicts its row")
    axes.set_yticks(range(len(rows)), [formula(method_title(row.key)) for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.28 if values else 0.06, y=0.12 if values else 0.05)
    axes.set_xlabel("accuracy (%)")
    axes.set_title("(b) overall, as printed")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3) if values else axes.legend(loc="center left")


def formula(name: str) -> str:
    """Losses as formulas; a long name in two lines."""
    set_name = re.sub(r"L_(\w+)", r"$L_\\mathrm{\1}$", name)
    return set_name.replace(", $L_\\mathrm{CR}", ",\n$L_\\mathrm{CR}")


def _lines(series: Sequence[Series], values: Callable[[Series], np.ndarray]) -> list[Line]:
    """A user's line is thicker than the published one of that method."""
    chosen = styles(entry.key for entry in series)
    mixed = not all(entry.yours for entry in series)
    return [Line(entry.label, values(entry), chosen[entry.key], strong=entry.yours and mixed) for entry in series]

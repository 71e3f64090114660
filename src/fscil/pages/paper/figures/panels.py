"""The panels that figures are put together from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fscil.core.palette import BLUE, VERMILLION, styles
from fscil.pages.paper.figures.canvas import line_look
from fscil.paper.audit import doubtful_values
from fscil.paper.printed import PrintedTable, Row, method_title
from fscil.paper.series import Series


def alpha_panel(axes: Axes, series: Sequence[Series], title: str) -> None:
    """gAcc against alpha, mean over sessions: novel classes only on the left, all classes alike on the right."""
    chosen = styles(entry.key for entry in series)
    mixed = not all(entry.yours for entry in series)
    for i, entry in enumerate(series):
        alphas, values = entry.curve()
        # Few markers on a smooth curve, at other places for its neighbours, so that they do not pile up.
        marks = list(range(i % 3, len(alphas), 3))
        axes.plot(
            alphas, values, label=entry.label, markevery=marks, **line_look(chosen[entry.key], entry.yours and mixed)
        )
    axes.set_title(title)
    axes.set_xlabel("α, the weight of a base class")
    axes.set_ylabel("gAcc(α), mean over tasks (%)")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0\nnovel only", "0.25", "0.5", "0.75", "1\naAcc"])
    axes.set_xlim(-0.03, 1.03)


def session_panel(axes: Axes, series: Sequence[Series], metric: str, title: str) -> None:
    """aAcc or gAcc after each task."""
    chosen = styles(entry.key for entry in series)
    mixed = not all(entry.yours for entry in series)
    for entry in series:
        values = entry.gacc_per_session() if metric == "gAcc" else entry.aacc_per_session()
        look = line_look(chosen[entry.key], entry.yours and mixed)
        axes.plot(range(1, len(values) + 1), values, label=entry.label, **look)
    axes.set_title(title)
    axes.set_xlabel("task")
    axes.set_ylabel(f"{metric} after the task (%)")
    task_ticks(axes, max(len(entry.classes) for entry in series))


def task_ticks(axes: Axes, tasks: int) -> None:
    axes.set_xticks(range(1, tasks + 1))
    axes.set_xlim(0.7, tasks + 0.3)


def ranked_legend(
    figure: Figure, axes: Axes, series: Sequence[Series], *, below: bool = False, title: str = "gAcc (grid)"
) -> None:
    """Methods by their gAcc, best first, with the number: beside the panels or below them."""
    order = sorted(range(len(series)), key=lambda i: -series[i].gacc()[0])
    handles = axes.get_legend_handles_labels()[0]
    labels = [f"{series[i].label}  {series[i].gacc()[0]:.2f}" for i in order]
    columns = max(1, min(4, len(series), 110 // (max(map(len, labels)) + 9)))  # as many as fit into the width
    place = {"loc": "outside lower center", "ncols": columns} if below else {"loc": "outside right upper"}
    figure.legend([handles[i] for i in order], labels, title=title, handlelength=4.0, **place)


def overall_panel(axes: Axes, printed: PrintedTable, rows: Sequence[Row], *, values: bool) -> None:
    """Printed gAcc and aAcc of every row, first row on top; what contradicts its own row gets a question mark."""
    doubtful = doubtful_values(printed)
    for y, row in enumerate(rows):
        gacc, aacc = row.cells["gacc"].value, row.cells["aacc"].value
        axes.plot([gacc, aacc], [y, y], color="#999999", linewidth=1.0, zorder=1)
        for column, value, colour, marker, face in (
            ("gacc", gacc, VERMILLION, "o", VERMILLION),
            ("aacc", aacc, BLUE, "s", "white"),
        ):
            label = {"gacc": "gAcc", "aacc": "aAcc"}[column] if y == 0 else None
            axes.plot(value, y, marker, color=colour, markerfacecolor=face, label=label)
            text = f"{value:.2f}" if values else ""
            text += "?" if (row.key, column) in doubtful else ""
            side = -1 if value == min(gacc, aacc) else 1
            axes.annotate(
                text, (value, y), xytext=(6 * side, 0), textcoords="offset points",
                ha="right" if side < 0 else "left", va="center", fontsize=8, color=colour,
            )  # fmt: skip
    if any(key in {row.key for row in rows} for key, _ in doubtful):
        axes.plot([], [], linestyle="none", marker="$?$", color="black", label="contradicts its row")
    axes.set_yticks(range(len(rows)), [formula(method_title(row.key)) for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.28 if values else 0.06, y=0.12 if values else 0.05)
    axes.set_xlabel("accuracy (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3) if values else axes.legend(loc="center left")


def formula(name: str) -> str:
    """Losses as formulas; a long name in two lines."""
    set_name = re.sub(r"L_(\w+)", r"$L_\\mathrm{\1}$", name)
    return set_name.replace(", $L_\\mathrm{CR}", ",\n$L_\\mathrm{CR}")

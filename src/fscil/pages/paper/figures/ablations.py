"""What the parts of a method bring: losses, layers and weights (figures 7 and A4, tables 4-6 and A8)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure

from fscil.core.palette import BLUE, DASHED, VERMILLION, Style, styles
from fscil.pages.paper.figures.canvas import line_look, new_figure
from fscil.pages.paper.figures.panels import formula, overall_panel, task_ticks
from fscil.paper.printed import datasets, method_title, table
from fscil.paper.runs import Run, as_series
from fscil.paper.varied import varied_setting

_FIRST, _SECOND = Style(BLUE, "o", DASHED, hollow=True), Style(VERMILLION, "s")


def ablation(name: str) -> Figure:
    """Losses added one by one, as printed."""
    printed = table(name)
    chosen = styles(row.key for row in printed.rows)
    figure, (left, right) = new_figure(2, height=3.1, ratios=[1.1, 1.0])
    for row in printed.rows:
        values = [cell.value for cell in row.sessions]
        left.plot(range(1, len(values) + 1), values, label=formula(method_title(row.key)), **line_look(chosen[row.key]))
    left.set_title(f"(a) {datasets()[printed.dataset].title}: aAcc per task, as printed")
    left.set_xlabel("task")
    left.set_ylabel("aAcc after the task (%)")
    task_ticks(left, datasets()[printed.dataset].sessions)
    left.legend()
    overall_panel(right, printed, printed.rows, values=True)
    right.set_title("(b) overall, as printed")
    return figure


def layers() -> Figure:
    """Raw and rectified features of single layers, and their ensemble, as printed."""
    printed = table("layers-mini")
    figure, panels = new_figure(2, height=3.0)
    depths = [8, 9, 10]
    for axes, column, title in zip(panels, ("aacc", "gacc"), ("aAcc", "gAcc"), strict=True):
        for kind, style in (("raw", _FIRST), ("rectified", _SECOND)):
            rows = [printed.row(f"layer-{depth}-{kind}") for depth in depths]
            values = [row.cells[column].value for row in rows if row is not None]
            axes.plot(depths, values, label=kind, **line_look(style))
        ensemble = printed.row("yourself")
        if ensemble is not None:
            level = ensemble.cells[column].value
            axes.axhline(level, color="black", linestyle=":", linewidth=1.0, label="ensemble of 8, 9, 10")
        axes.set_xticks(depths)
        axes.set_xlim(7.7, 10.3)
        axes.set_xlabel("layer")
        axes.set_ylabel(f"{title} (%)")
        letter = "a" if column == "aacc" else "b"
        axes.set_title(f"({letter}) {title} on {datasets()[printed.dataset].title}, as printed")
    panels[0].legend(loc="lower right")
    return figure


def sensitivity(runs: Sequence[Run], key: str | None = None) -> Figure:
    """aAcc and gAcc against the one setting in which the runs differ; a point is the mean of its draws."""
    setting, groups = varied_setting(runs, key)
    methods = list(dict.fromkeys(run.method for run in runs))
    figure, panels = new_figure(len(methods), height=3.1)
    for axes, method in zip(panels, methods, strict=True):
        points = {value: as_series([run for run in group if run.method == method]) for value, group in groups.items()}
        points = {value: found for value, found in points.items() if found}
        xs = sorted(points)
        for metric, style in (("aAcc", _FIRST), ("gAcc", _SECOND)):
            ys = [fmean(getattr(entry, metric.lower())()[0] for entry in points[x]) for x in xs]
            axes.plot(range(len(xs)), ys, label=metric, **line_look(style))
        axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])  # even steps: such settings are spread over decades
        axes.set_xlabel(setting.removeprefix("options."))
        axes.set_ylabel("accuracy (%)")
        title = next(run.title for run in runs if run.method == method)
        axes.set_title(f"{title} on {runs[0].dataset}")
    panels[0].legend()
    return figure

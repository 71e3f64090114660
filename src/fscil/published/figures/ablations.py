"""What a part of the method brings: losses, layers, and the weights of the losses (figures 4 and A4, tables 4-6, A8)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fscil.palette import BLUE, VERMILLION, styles
from fscil.published.catalogue import Row, datasets, method_title, table
from fscil.published.figures.canvas import line_look, new_figure
from fscil.published.figures.panels import task_ticks
from fscil.published.runs import Run, as_series
from fscil.published.varied import varied_setting


def ablation(name: str) -> Figure:
    """Losses added one by one, as printed."""
    printed = table(name)
    chosen = styles(row.key for row in printed.rows)
    figure, (left, right) = new_figure(2, height=3.1, ratios=[1.1, 1.0])
    for row in printed.rows:
        values = [cell.value for cell in row.sessions]
        left.plot(range(1, len(values) + 1), values, label=method_title(row.key), **line_look(chosen[row.key]))
    left.set_title(f"(a) {datasets()[printed.dataset].title}: aAcc per task, as printed")
    left.set_xlabel("task")
    left.set_ylabel("aAcc after the task (%)")
    task_ticks(left, datasets()[printed.dataset].sessions)
    left.legend()
    _steps(right, printed.rows, [method_title(row.key) for row in printed.rows])
    right.set_title("(b) overall, as printed")
    return figure


def layers() -> Figure:
    """Raw and rectified features of single layers, and their ensemble, as printed."""
    printed = table("layers-mini")
    figure, panels = new_figure(2, height=3.0)
    depths = [8, 9, 10]
    for axes, column, title in zip(panels, ("aacc", "gacc"), ("aAcc", "gAcc"), strict=True):
        for kind, look in (
            ("raw", {"color": BLUE, "marker": "o", "linestyle": "--", "markerfacecolor": "white"}),
            ("rectified", {"color": VERMILLION, "marker": "s", "linestyle": "-"}),
        ):
            rows = [printed.row(f"layer-{depth}-{kind}") for depth in depths]
            values = [row.cells[column].value for row in rows if row is not None]
            axes.plot(depths, values, label=kind, **look)  # type: ignore[arg-type]
        ensemble = printed.row("yourself")
        if ensemble is not None:
            axes.axhline(ensemble.cells[column].value, color="black", linestyle=":", linewidth=1.0, label="ensemble of 8, 9, 10")
        axes.set_xticks(depths)
        axes.set_xlim(7.7, 10.3)
        axes.set_xlabel("layer")
        axes.set_ylabel(f"{title} (%)")
        axes.set_title(f"({'a' if column == 'aacc' else 'b'}) {title} on {datasets()[printed.dataset].title}, as printed")
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
        for metric, look in (
            ("aAcc", {"color": BLUE, "marker": "o", "linestyle": "--", "markerfacecolor": "white"}),
            ("gAcc", {"color": VERMILLION, "marker": "*", "markersize": 9.0, "linestyle": "-"}),
        ):
            ys = [fmean(getattr(entry, metric.lower())()[0] for entry in points[x]) for x in xs]
            axes.plot(range(len(xs)), ys, label=metric, **look)  # type: ignore[arg-type]
        axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])  # even steps: such settings are spread over decades
        axes.set_xlabel(setting)
        axes.set_ylabel("accuracy (%)")
        title = next(run.title for run in runs if run.method == method)
        axes.set_title(f"{title} on {runs[0].dataset}")
    panels[0].legend()
    return figure


def _steps(axes: Axes, rows: Sequence[Row], names: Sequence[str]) -> None:
    """One line per row, from gAcc to aAcc, first row on top."""
    for y, row in enumerate(rows):
        gacc, aacc = row.cells["gacc"].value, row.cells["aacc"].value
        axes.plot([gacc, aacc], [y, y], color="#999999", linewidth=1.0, zorder=1)
        for value, colour, marker, face, label, side in (
            (gacc, VERMILLION, "o", VERMILLION, "gAcc", "right"),
            (aacc, BLUE, "s", "white", "aAcc", "left"),
        ):
            axes.plot(value, y, marker, color=colour, markerfacecolor=face, label=label if y == 0 else None)
            axes.annotate(
                f"{value:.2f}", (value, y), xytext=(-6 if side == "right" else 6, 0), textcoords="offset points",
                ha=side, va="center", fontsize=8, color=colour,
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), [name.replace(", L_", ",\nL_") for name in names])
    axes.invert_yaxis()
    axes.margins(x=0.28, y=0.15)
    axes.set_xlabel("accuracy (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

"""The panels that figures are put together from."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fscil.palette import styles
from fscil.published.figures.canvas import line_look
from fscil.published.series import Series


def alpha_panel(axes: Axes, series: Sequence[Series], title: str) -> None:
    """gAcc against alpha, mean over sessions: novel classes only on the left, all classes alike on the right."""
    chosen = styles(entry.key for entry in series)
    for entry in series:
        alphas, values = entry.curve()
        axes.plot(alphas, values, label=entry.label, markevery=_marks(len(alphas), entry, series), **line_look(chosen[entry.key]))
    axes.set_title(title)
    axes.set_xlabel("α, the weight of a base class")
    axes.set_ylabel("gAcc(α), mean over tasks (%)")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0\nnovel only", "0.25", "0.5", "0.75", "1\naAcc"])
    axes.set_xlim(-0.03, 1.03)


def session_panel(axes: Axes, series: Sequence[Series], metric: str, title: str) -> None:
    """aAcc or gAcc after each task."""
    chosen = styles(entry.key for entry in series)
    for entry in series:
        values = entry.gacc_per_session() if metric == "gAcc" else entry.aacc_per_session()
        axes.plot(range(1, len(values) + 1), values, label=entry.label, **line_look(chosen[entry.key]))
    axes.set_title(title)
    axes.set_xlabel("task")
    axes.set_ylabel(f"{metric} after the task (%)")
    task_ticks(axes, max(len(entry.classes) for entry in series))


def task_ticks(axes: Axes, tasks: int) -> None:
    axes.set_xticks(range(1, tasks + 1))
    axes.set_xlim(0.7, tasks + 0.3)


def ranked_legend(figure: Figure, axes: Axes, series: Sequence[Series], *, columns: int = 0, title: str = "gAcc (grid)") -> None:
    """Methods by their gAcc, best first, with the number: beside the panels, or in columns below them."""
    order = sorted(range(len(series)), key=lambda i: -series[i].gacc()[0])
    handles = axes.get_legend_handles_labels()[0]
    labels = [f"{series[i].label}  {series[i].gacc()[0]:.2f}" for i in order]
    place = {"loc": "outside lower center", "ncols": columns} if columns else {"loc": "outside right upper"}
    figure.legend([handles[i] for i in order], labels, title=title, handlelength=3.2, **place)  # type: ignore[arg-type]


def _marks(points: int, entry: Series, series: Sequence[Series]) -> list[int]:
    """Few markers on a smooth curve, at different places for neighbours in the legend, so that they do not pile up."""
    step = 3
    return list(range(list(series).index(entry) % step, points, step))

"""What the parts of a method bring: losses, layers and weights (figures 7 and A4, tables 4-6 and A8)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from fscil.core.errors import InputError, nearest
from fscil.pages.kit.drawings import LayerPoint, Line, draw_layers, draw_line
from fscil.pages.paper.figures.canvas import new_figure
from fscil.pages.paper.figures.panels import METRIC_STYLES, overall_panel, printed_panel
from fscil.paper.finding import COLUMNS
from fscil.paper.printed import datasets, table
from fscil.paper.series import as_series
from fscil.results.grouping import settings
from fscil.results.result import Result
from fscil.results.significance import spread

_LAYER_NAMES = {"raw": "raw", "rectified": "rectified", "ensemble": "rectified, together"}


def ablation(name: str) -> Figure:
    """Losses added one by one, as printed."""
    printed = table(name)
    figure, (left, right) = new_figure(2, height=3.1, ratios=[1.1, 1.0])
    printed_panel(left, printed, printed.rows)
    left.legend()
    overall_panel(right, printed, printed.rows, values=True)
    return figure


def layers() -> Figure:
    """Raw and rectified features of single layers, and their ensemble, as printed."""
    printed = table("layers-mini")
    figure, panels = new_figure(2, height=3.0)
    for axes, column, letter in zip(panels, METRIC_STYLES, "ab", strict=True):
        points = []
        for row in printed.rows:
            _, _, layer = row.key.partition("layer-")
            block, _, kind = layer.partition("-")
            place = int(block) if block else "8, 9, 10"
            points.append(LayerPoint(kind or "ensemble", place, spread([row.cells[column].value])))
        draw_layers(axes, points, names=_LAYER_NAMES)
        axes.set_ylabel(f"{COLUMNS[column]} (%)")
        axes.set_title(f"({letter}) {COLUMNS[column]} on {datasets()[printed.dataset].title}, as printed")
    panels[0].legend(loc="lower right")
    return figure


def sensitivity(results: Sequence[Result], key: str | None = None) -> Figure:
    """aAcc and gAcc against the one setting in which the runs differ; a point is the mean of its draws."""
    setting, groups = varied_setting(results, key)
    methods = {result.method: result.title for result in results}
    figure, panels = new_figure(len(methods), height=3.1)
    for axes, (method, title) in zip(panels, methods.items(), strict=True):
        points = {x: as_series(result for result in group if result.method == method) for x, group in groups.items()}
        ticks = sorted(x for x, found in points.items() if found)
        for metric, style in METRIC_STYLES.items():
            means = [np.mean([getattr(entry, metric).mean for entry in points[x]]) for x in ticks]
            draw_line(axes, range(len(ticks)), Line(COLUMNS[metric], np.array([means]), style))
        axes.set_xticks(range(len(ticks)), [f"{x:g}" for x in ticks])  # even steps: such settings span decades
        axes.set_xlabel(setting.removeprefix("options."))
        axes.set_ylabel("accuracy (%)")
        axes.set_title(f"{title} on {results[0].dataset}")
    panels[0].legend()
    return figure


def varied_setting(results: Sequence[Result], key: str | None = None) -> tuple[str, dict[float, list[Result]]]:
    """The numeric setting that differs between the runs, and the runs by its value; `key` chooses among several."""
    numbers = [{name: x for name, x in settings(result).items() if isinstance(x, float)} for result in results]
    names = sorted({name for each in numbers for name in each})
    varied = [name for name in names if len({each.get(name) for each in numbers}) > 1]
    if key is not None:
        if key not in names:
            raise InputError(f"No run has a numeric setting '{key}'; {nearest(key, names)}")
        varied = [key]
    if not varied:
        raise InputError("The runs do not differ in any numeric setting; a sensitivity curve needs runs that do.")
    if len(varied) > 1:
        raise InputError(f"The runs differ in {', '.join(varied)}; choose one with --vary.")
    groups: dict[float, list[Result]] = {}
    for result, each in zip(results, numbers, strict=True):
        if varied[0] not in each:
            raise InputError(f"{result.source} does not state '{varied[0]}'; leave it out.")
        groups.setdefault(each[varied[0]], []).append(result)
    return varied[0], groups

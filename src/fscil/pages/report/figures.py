"""Figures of the report: gAcc over alpha, accuracy per session, the accuracy matrix, layers, maps of the features."""

from collections.abc import Mapping, Sequence
from math import ceil, floor

import numpy as np
from markupsafe import Markup
from matplotlib.patches import Rectangle

from fscil.core.palette import Style
from fscil.metrics import gacc_curve
from fscil.metrics.names import label
from fscil.pages.kit import drawings
from fscil.pages.kit.drawings import LAYER_NAMES, LayerPoint, Line
from fscil.pages.kit.looks import MARKERS, SERIES, paint, size_of
from fscil.pages.kit.prose import number, session_name
from fscil.pages.kit.svg import WIDTH, panel
from fscil.results.analysis import FeatureMap, FeatureMaps, LayerScore
from fscil.results.comparison import Comparison, MethodRow
from fscil.results.significance import Spread

ALPHAS = tuple(k / 40 for k in range(41))
BASE_STYLE = Style("muted", "o")  # of the classes that stay in the background of a map
_STRONGEST = 0.62  # opacity of the highest accuracy: ink stays readable on it, in light and dark
_DECIMALS_UP_TO = 11  # sessions: with more, whole percents are what fits a cell
_NUMBERS_UP_TO = 14

Styles = Mapping[str, Style]


def alpha_figure(found: Comparison, styles: Styles) -> Markup:
    """gAcc(alpha), averaged over sessions: mean over draws with a band of one standard deviation (figure 2a)."""
    lines = [
        Line(row.title, np.array([gacc_curve(result.matrix, ALPHAS) for result in row.results]), styles[row.method])
        for row in found.rows
    ]
    with panel(250) as made:
        drawings.draw_alpha_curves(made.axes, ALPHAS, lines, shade=_shade(found))
        return made.markup("curve", f"Line chart of gAcc over alpha from 0 to 1: {_ends(lines)}.")


def sessions_figure(found: Comparison, styles: Styles, key: str, limits: tuple[float, float]) -> Markup:
    """One metric after every session: mean over draws with a band of one standard deviation (figure 2b)."""
    lines = [
        Line(row.title, np.array([result.metrics[key] for result in row.results]), styles[row.method])
        for row in found.rows
    ]
    known = np.cumsum(found.results[0].matrix.classes)
    with panel(250, (42, 8, 44, 8)) as made:
        axes = made.axes
        for line in lines:
            drawings.draw_line(axes, range(len(known)), line, shade=_shade(found))
        ticks = [f"{session_name(i)}\n{count}" for i, count in enumerate(known)]
        axes.set_xticks(range(len(known)), ticks, fontsize=8.5 if len(known) <= 9 else 7.5)
        axes.set_xlim(-0.3, len(known) - 0.7)
        axes.set_ylim(*limits)
        axes.set_xlabel("session, and number of classes known by then")
        axes.set_ylabel(f"{label(key)} (%)")
        return made.markup(key, f"Line chart of {label(key)} per session: {_ends(lines)}.")


def session_limits(found: Comparison, keys: Sequence[str]) -> tuple[float, float]:
    """One range for all panels, so that their heights can be compared."""
    values = [value for result in found.results for key in keys for value in result.metrics[key]]
    low, high = 5 * floor(min(values) / 5), 5 * ceil(max(values) / 5)
    return low - 1, max(high, low + 5) + 1


def matrix_figure(method: MethodRow, name: str, limits: tuple[float, float]) -> Markup:
    """Accuracy on every session's classes (columns) after every session (rows), averaged over draws."""
    values = _mean_matrix(method)
    sessions = len(values)
    digits, size = (1 if sessions <= _DECIMALS_UP_TO else 0), (8.5 if sessions <= 9 else 7.5)
    low, high = limits
    with panel(280, (42, 2, 4, 28)) as made:
        axes = made.axes
        for i, j in [(row, column) for row in range(sessions) for column in range(row + 1)]:
            strength = 0.05 + (_STRONGEST - 0.05) * (values[i, j] - low) / (high - low)
            place = (j - 0.47, i - 0.46)
            axes.add_patch(Rectangle(place, 0.94, 0.92, facecolor=paint("heat"), alpha=strength, linewidth=0))
            if sessions <= _NUMBERS_UP_TO:
                axes.text(j, i, number(values[i, j], digits), ha="center", va="center_baseline", fontsize=size)
        axes.set_xlim(-0.5, sessions - 0.5)
        axes.set_ylim(sessions - 0.5, -0.5)
        names = [session_name(i) for i in range(sessions)]
        axes.set_xticks(range(sessions), names, fontsize=8.5)
        axes.set_yticks(range(sessions), names, fontsize=8.5)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("accuracy (%) on the classes of session …")
        axes.set_ylabel("… after session")
        axes.grid(False)
        axes.spines[:].set_visible(False)
        start, end = number(values[0, 0], 1), number(values[-1, 0], 1)
        said = f"Accuracy matrix of {method.title}: base classes from {start} to {end} %"
        said += f", newest classes {number(values[-1, -1], 1)} %." if sessions > 1 else "."
        return made.markup(f"matrix-{name}", said)


def matrix_limits(found: Comparison) -> tuple[float, float]:
    """One colour scale for all matrices of the page."""
    values = np.concatenate([_mean_matrix(row).ravel() for row in found.rows])
    low = 10.0 * floor(np.nanmin(values) / 10)
    return low, max(10.0 * ceil(np.nanmax(values) / 10), low + 10.0)


def layer_figure(layers: Sequence[LayerScore], key: str, name: str) -> Markup:
    """Accuracy over the blocks of the network, raw and rectified; what is of no single block stands at the right."""
    points = [
        LayerPoint(layer.kind, layer.label if layer.block is None else layer.block, Spread(value, None, 1))
        for layer in layers
        if (value := getattr(layer, key)) is not None
    ]
    ranges = []
    for kind in dict.fromkeys(point.kind for point in points):
        means = [point.value.mean for point in points if point.kind == kind]
        ranges.append(f"{LAYER_NAMES[kind]} {number(min(means), 1)} to {number(max(means), 1)} %")
    turned = drawings.crowded(drawings.layer_ticks(points), WIDTH - 52)
    with panel(260 if turned else 230, (42, 10, 63 if turned else 33, 10)) as made:
        drawings.draw_layers(made.axes, points, upright=turned)
        made.axes.set_ylabel("accuracy (%)")
        return made.markup(f"layer-{key}", f"Accuracy on {name} per layer: {'; '.join(ranges)}.")


def map_figure(shown: FeatureMap, maps: FeatureMaps, name: str) -> Markup:
    """Test images as points: base classes muted, every new class in its own colour and marker."""
    points, classes = np.array(shown.points), np.array(maps.class_of_point)
    base = ~np.array(maps.novel)[classes]
    with panel(340, (20, 4, 20, 4)) as made:
        axes = made.axes
        axes.scatter(points[base, 0], points[base, 1], s=9, color=paint(BASE_STYLE.colour), alpha=0.32, linewidths=0)
        for index, style in class_styles(maps).items():
            mine = points[classes == index]
            axes.scatter(
                mine[:, 0],
                mine[:, 1],
                s=size_of(style) ** 2 * 0.85,
                color=paint(style.colour),
                marker=style.marker,
                edgecolors=paint("paper"),
                linewidths=0.5,
            )
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("t-SNE axis 1 (no unit)", fontsize=11)
        axes.set_ylabel("t-SNE axis 2 (no unit)", fontsize=11)
        counts = f"{int(base.sum())} images of base classes, {int((~base).sum())} of new classes"
        return made.markup(f"map-{name}", f"t-SNE map of {shown.label} features: {counts}.")


def class_styles(maps: FeatureMaps) -> dict[int, Style]:
    """A style per new class: seven colours with a marker each, then the same colours with other markers."""
    indices = [index for index, novel in enumerate(maps.novel) if novel]
    count = len(SERIES)
    return {index: Style(SERIES[i % count], MARKERS[(i + i // count) % count]) for i, index in enumerate(indices)}


def _mean_matrix(row: MethodRow) -> np.ndarray:
    """Averaged over draws; NaN above the diagonal."""
    return np.mean([result.matrix.values for result in row.results], axis=0)


def _ends(lines: Sequence[Line]) -> str:
    return "; ".join(f"{line.label} from {number(line.mean[0], 1)} to {number(line.mean[-1], 1)} %" for line in lines)


def _shade(found: Comparison) -> float:
    """Opacity of a band: where many overlap, each must be fainter for the lines to be seen."""
    return 0.16 if len(found.rows) <= 3 else 0.06

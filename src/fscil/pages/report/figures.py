"""Figures of the results: gAcc over alpha, accuracy per session, the accuracy matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from fscil.metrics import gacc_curve
from fscil.pages.kit.looks import Style, colour
from fscil.pages.kit.markup import Html, number
from fscil.pages.kit.svg import drawing
from fscil.results.result import Result

ALPHAS = tuple(k / 40 for k in range(41))
_STRONGEST = 0.62  # opacity of the highest accuracy: ink stays readable on it, in light and dark
_DECIMALS_UP_TO = 11  # sessions: with more, whole percents are what fits a cell
_NUMBERS_UP_TO = 14

Groups = Mapping[str, Sequence[Result]]
Styles = Mapping[str, Style]


def curve_figure(groups: Groups, styles: Styles, titles: Mapping[str, str]) -> Html:
    """gAcc(alpha), averaged over sessions: mean over draws with a band of one standard deviation (figure 2a)."""
    ends = []
    with drawing(250) as panel:
        axes = panel.axes
        for method, results in groups.items():
            curves = np.array([gacc_curve(result.matrix, ALPHAS) for result in results])
            mean = _band(axes, ALPHAS, curves, styles[method], _shade(groups), every=10)
            ends.append(f"{titles[method]} from {number(mean[0], 1)} to {number(mean[-1], 1)} %")
        axes.set_xlim(-0.02, 1.02)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set_xlabel("α, the weight of a base class (a new one weighs 1)")
        axes.set_ylabel("gAcc(α) (%)")
        return panel.markup("curve", f"Line chart of gAcc over alpha from 0 to 1: {'; '.join(ends)}.")


def sessions_figure(
    groups: Groups, styles: Styles, titles: Mapping[str, str], key: str, name: str, limits: tuple[float, float]
) -> Html:
    """One metric after every session: mean over draws with a band of one standard deviation (figure 2b)."""
    ends = []
    with drawing(250, (42, 8, 44, 8)) as panel:
        axes = panel.axes
        for method, results in groups.items():
            values = np.array([result.metrics[key] for result in results])
            mean = _band(axes, range(values.shape[1]), values, styles[method], _shade(groups))
            ends.append(f"{titles[method]} from {number(mean[0], 1)} to {number(mean[-1], 1)} %")
        classes = next(iter(groups.values()))[0].matrix.classes
        known = np.cumsum(classes)
        ticks = [f"{session_name(i)}\n{known[i]}" for i in range(len(classes))]
        axes.set_xticks(range(len(classes)), ticks, fontsize=8.5 if len(classes) <= 9 else 7.5)
        axes.set_xlim(-0.3, len(classes) - 0.7)
        axes.set_ylim(*limits)
        axes.set_xlabel("session, and number of classes known by then")
        axes.set_ylabel(f"{name} (%)")
        return panel.markup(key, f"Line chart of {name} per session: {'; '.join(ends)}.")


def session_limits(groups: Groups, keys: Sequence[str]) -> tuple[float, float]:
    """One range for all panels, so that their heights can be compared."""
    values = [
        value for results in groups.values() for result in results for key in keys for value in result.metrics[key]
    ]
    low, high = 5 * floor(min(values) / 5), 5 * ceil(max(values) / 5)
    return low - 1, max(high, low + 5) + 1


def mean_matrix(results: Sequence[Result]) -> np.ndarray:
    """The accuracy matrix averaged over draws; NaN above the diagonal."""
    return np.mean([result.matrix.values for result in results], axis=0)


def matrix_limits(groups: Groups) -> tuple[float, float]:
    """One colour scale for all matrices of the page."""
    values = np.concatenate([mean_matrix(results).ravel() for results in groups.values()])
    low = 10.0 * floor(np.nanmin(values) / 10)
    return low, max(10.0 * ceil(np.nanmax(values) / 10), low + 10.0)


def matrix_figure(results: Sequence[Result], title: str, name: str, limits: tuple[float, float]) -> Html:
    """Accuracy on every session's classes (columns) after every session (rows), averaged over draws."""
    values = mean_matrix(results)
    sessions = len(values)
    digits, size = (1 if sessions <= _DECIMALS_UP_TO else 0), (8.5 if sessions <= 9 else 7.5)
    low, high = limits
    with drawing(280, (42, 2, 4, 28)) as panel:
        axes = panel.axes
        for i in range(sessions):
            for j in range(i + 1):
                strength = 0.05 + (_STRONGEST - 0.05) * (values[i, j] - low) / (high - low)
                cell = Rectangle(
                    (j - 0.47, i - 0.46), 0.94, 0.92, facecolor=colour("heat"), alpha=strength, linewidth=0
                )
                axes.add_patch(cell)
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
        words = f"Accuracy matrix of {title}: base classes from {start} to {end} %"
        words += f", newest classes {number(values[-1, -1], 1)} %." if sessions > 1 else "."
        return panel.markup(f"matrix-{name}", words)


def session_name(index: int) -> str:
    return str(index) if index else "base"


def _shade(groups: Groups) -> float:
    """Opacity of a band: where many overlap, each must be fainter for the lines to be seen."""
    return 0.16 if len(groups) <= 3 else 0.06


def _band(axes: Axes, x: Sequence[float], runs: np.ndarray, style: Style, shade: float, every: int = 1) -> np.ndarray:
    """Draw mean and spread of (draws, points); give the mean."""
    mean = runs.mean(axis=0)
    if len(runs) > 1:
        std = runs.std(axis=0, ddof=1)
        axes.fill_between(x, mean - std, mean + std, color=style.colour, alpha=shade, linewidth=0)
    axes.plot(
        x,
        mean,
        color=style.colour,
        linestyle=style.line,
        marker=style.marker,
        markersize=style.size,
        markevery=every,
        markerfacecolor=style.face,
        markeredgecolor=style.edge,
        markeredgewidth=0.8,
    )
    return mean

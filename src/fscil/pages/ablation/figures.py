"""Figures of an ablation: steps, layers, sensitivity curves and reliability, each with its spread over draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

from matplotlib.axes import Axes

from fscil.pages.ablation.tables import factor_text
from fscil.pages.kit.looks import Style, colour
from fscil.pages.kit.markup import Html, number
from fscil.pages.kit.svg import drawing
from fscil.results.ablation import Ablation, Curve, Line
from fscil.results.comparison import Spread

# The raw network is the baseline, FR is YourSelf: drawn as those are everywhere.
LAYER_STYLES = {
    "raw": Style("c1", "o"),
    "rectified": Style("c0", "s"),
    "raw ensemble": Style("c1", "D", hollow=True),
    "ensemble": Style("c0", "*"),
    "whitened": Style("c2", "^"),
    "whole": Style("c3", "D"),
}
LAYER_WORDS = {
    "raw": "raw",
    "rectified": "rectified",
    "raw ensemble": "raw layers together",
    "ensemble": "rectified layers together",
    "whitened": "whitened, together",
    "whole": "rectified and whitened together",
}
SCORE_STYLES = {"gacc_grid": Style("c0", "*"), "aacc": Style("c1", "o", (4, 1.5))}
GROUP_STYLES = {"base": Style("c2", "^"), "novel": Style("c3", "D", (4, 1.5))}
SCORE_WORDS = {"gacc_grid": "gAcc, grid", "aacc": "aAcc", "base": "base classes", "novel": "new classes"}
_LAST_PLACES = ("raw-all", "whitened", "whole")
PREDICTOR_STYLES = {
    ("prototypes", "before"): Style("c1", "o", (2, 2), hollow=True),
    ("prototypes", "after"): Style("c1", "o"),
    ("ensemble", "before"): Style("c0", "s", (2, 2), hollow=True),
    ("ensemble", "after"): Style("c0", "s"),
}


def steps_figure(steps: Sequence[Line], styles: Mapping[str, Style], name: str) -> Html:
    """Some scores after each addition."""
    ticks = ["no FR", "+ FR, cos,\nnovel CE", "+ CR", "+ IR", "+ whitened"]
    with drawing(230, (42, 8, 38, 10)) as panel:
        told = []
        for key, style in styles.items():
            values = [line.spread(key) for line in steps]
            _marked_line(panel.axes, range(len(values)), values, style)
            told.append(f"{SCORE_WORDS[key]} {', '.join(number(value.mean, 1) for value in values)} %")
        panel.axes.set_xticks(range(len(steps)), ticks[: len(steps)])
        panel.axes.set_xlim(-0.35, len(steps) - 0.65)
        panel.axes.margins(y=0.12)
        panel.axes.set_ylabel("accuracy (%)")
        return panel.markup(f"steps-{name}", f"Ablation, from no FR to the recipe: {'; '.join(told)}.")


def layers_figure(layers: Sequence[Line], key: str, name: str) -> Html:
    """One line of dots per layer, so that raw and rectified stand side by side."""
    blocks = sorted({line.block for line in layers if line.block})
    names = [*(f"block {block}" for block in blocks), "final", "together", "+ final"]
    names += ["whitened", "all"] if any(line.key == "whole" for line in layers) else []
    with drawing(60 + 30 * len(names), (66, 10, 33, 6)) as panel:
        axes, told = panel.axes, []
        for line in layers:
            place = _layer_place(line, blocks)
            # Two dots of one row are moved apart a little: their bars would hide each other.
            alone = line.key in ("final", *_LAST_PLACES)
            shift = 0 if alone else 0.13 if line.kind in ("rectified", "ensemble") else -0.13
            value, style = line.spread(key), LAYER_STYLES[line.kind]
            axes.errorbar(
                [value.mean],
                [place + shift],
                xerr=None if value.std is None else [value.std],
                color=style.colour,
                marker=style.marker,
                markersize=style.size,
                markerfacecolor=style.face,
                markeredgecolor=style.edge,
                markeredgewidth=0.8 if not style.hollow else 1.4,
                elinewidth=1.4,
                linestyle="none",
            )
            told.append(f"{line.label} {number(value.mean, 1)} %")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.45, -0.55)
        axes.margins(x=0.08)
        axes.set_xlabel(f"{name} (%)")
        return panel.markup(f"layers-{key}", f"{name} per layer: {'; '.join(told)}.")


def sensitivity_figure(curve: Curve, limits: tuple[float, float]) -> Html:
    """gAcc and aAcc over the factor; positions are even, since the factors double."""
    with drawing(250, (44, 8, 52, 8)) as panel:
        axes, told = panel.axes, []
        axes.axvline(_recipe_place(curve), color=colour("muted"), linewidth=0.9, dashes=(2, 2))
        for key, style in SCORE_STYLES.items():
            values = [point.spread(key) for point in curve.points]
            _marked_line(axes, range(len(values)), values, style)
            means = [value.mean for value in values]
            told.append(f"{SCORE_WORDS[key]} from {number(min(means), 1)} to {number(max(means), 1)} %")
        value = max(curve.weights.values())
        ticks = [f"{factor_text(point.factor)}×\n{point.factor * value:.3g}" for point in curve.points]
        axes.set_xticks(range(len(ticks)), ticks)
        axes.set_xlim(-0.3, len(ticks) - 0.7)
        axes.set_ylim(*limits)
        names = listed_names(curve.weights)
        # Three panels share a line of the page, so that each is drawn smaller than others are.
        axes.tick_params(labelsize=10)
        axes.set_xlabel(f"times the recipe's value, and {names}", fontsize=11)
        axes.set_ylabel("accuracy (%)", fontsize=11)
        return panel.markup(f"beta-{curve.key}", f"Sensitivity to {curve.label}: {'; '.join(told)}.")


def sensitivity_limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """One range for all panels, so that slopes can be compared."""
    edges = [
        value.mean + side * (value.std or 0)
        for curve in curves
        for point in curve.points
        for value in (point.spread(key) for key in SCORE_STYLES)
        for side in (-1, 1)
    ]
    low, high = floor(min(edges)), ceil(max(edges))
    return low - 0.2, max(high, low + 2) + 0.2


def reliability_figure(ablation: Ablation, group: str, name: str) -> Html:
    """Accuracy over confidence in bins of equal mass; on the diagonal confidence can be taken at its word."""
    with drawing(300, (42, 10, 33, 10)) as panel:
        axes, told = panel.axes, []
        axes.plot([0, 100], [0, 100], color=colour("muted"), linewidth=0.9, dashes=(2, 2))
        for each in ablation.predictors:
            for moment in ("before", "after"):
                style = PREDICTOR_STYLES.get((each.key, moment))
                if style is None:
                    continue
                bins: Sequence[Any] = each.bins[moment][group]
                axes.plot(
                    [100 * b[0] for b in bins],
                    [100 * b[1] for b in bins],
                    color=style.colour,
                    linestyle=style.line,
                    linewidth=1.3,
                    marker=style.marker,
                    markersize=4.5,
                    markerfacecolor=style.face,
                    markeredgecolor=style.edge,
                    markeredgewidth=1.0 if style.hollow else 0.6,
                )
                error = each.spread(moment, group, "ece_mass").mean
                told.append(f"{each.label} {moment} the temperature: calibration error {number(error, 1)} %")
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)
        axes.set_xlabel("confidence (%)")
        axes.set_ylabel("accuracy (%)")
        return panel.markup(f"reliability-{group}", f"Accuracy over confidence on {name}: {'; '.join(told)}.")


def listed_names(weights: Mapping[str, float]) -> str:
    """The option whose value the axis shows; where two are scaled together, the larger."""
    return max(weights, key=lambda name: weights[name])


def _recipe_place(curve: Curve) -> int:
    return next(index for index, point in enumerate(curve.points) if point.factor == 1)


def _layer_place(line: Line, blocks: Sequence[int]) -> int:
    if line.block:
        return list(blocks).index(line.block)
    places = ("final", "raw-blocks", *_LAST_PLACES)
    return len(blocks) + places.index("raw-blocks" if line.key == "ensemble" else line.key)


def _marked_line(axes: Axes, x: Sequence[int], values: Sequence[Spread], style: Style) -> None:
    means = [value.mean for value in values]
    spreads = [value.std for value in values]
    if all(std is not None for std in spreads):
        low = [mean - (std or 0) for mean, std in zip(means, spreads, strict=True)]
        high = [mean + (std or 0) for mean, std in zip(means, spreads, strict=True)]
        axes.fill_between(x, low, high, color=style.colour, alpha=0.14, linewidth=0)
        axes.vlines(x, low, high, color=style.colour, linewidth=1.0)
    axes.plot(
        x,
        means,
        color=style.colour,
        linestyle=style.line,
        marker=style.marker,
        markersize=style.size,
        markerfacecolor=style.face,
        markeredgecolor=style.edge,
        markeredgewidth=0.8,
    )

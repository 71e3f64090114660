"""Figures of an ablation: steps, layers, sensitivity curves and reliability, each with its spread over draws."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil, floor

import numpy as np
from markupsafe import Markup

from fscil.core.palette import BLUE, DASHED, DOTTED, GREEN, PURPLE, VERMILLION, Style
from fscil.metrics.names import label
from fscil.pages.ablation.tables import factor_text
from fscil.pages.kit.drawings import LayerPoint, Line, crowded, draw_layers, draw_line, layer_ticks
from fscil.pages.kit.looks import line_look, paint
from fscil.pages.kit.prose import number
from fscil.pages.kit.svg import WIDTH, panel
from fscil.results.ablation import GROUPS, MOMENTS, Ablation, AblationRow, SensitivityCurve, SensitivityPoint

SCORE_STYLES = {"gacc_grid": Style(VERMILLION, "*"), "aacc": Style(BLUE, "o", DASHED)}
GROUP_STYLES = {"base": Style(GREEN, "^"), "novel": Style(PURPLE, "D", DASHED)}
PREDICTOR_STYLES = {
    ("prototypes", "before"): Style(BLUE, "o", DOTTED, hollow=True),
    ("prototypes", "after"): Style(BLUE, "o"),
    ("ensemble", "before"): Style(VERMILLION, "s", DOTTED, hollow=True),
    ("ensemble", "after"): Style(VERMILLION, "s"),
}
_STEP_TICKS = {
    "prototypes": "no FR", "raw-layers": "+ layers", "yourself-cos": "+ FR, cos,\nnovel CE", "yourself-all": "+ CE",
    "yourself-cos-cr": "+ CR", "yourself": "+ IR", "whitened": "+\nwhitened",
}  # fmt: skip
_LAYER_PLACES = {
    "final": "final", "raw-blocks": "together", "raw-all": "+ final", "ensemble": "together", "whitened": "whitened",
    "whole": "all",
}  # fmt: skip
_SHADE = 0.14


def steps_figure(steps: Sequence[AblationRow], styles: Mapping[str, Style]) -> Markup:
    """Some scores after each addition."""
    lines = [_line(steps, key, style) for key, style in styles.items()]
    with panel(230, (42, 8, 38, 10)) as made:
        axes = made.axes
        for line in lines:
            draw_line(axes, range(len(steps)), line, shade=_SHADE)
        axes.set_xticks(range(len(steps)), [_STEP_TICKS.get(row.key, row.label) for row in steps])
        axes.set_xlim(-0.35, len(steps) - 0.65)
        axes.margins(y=0.12)
        axes.set_ylabel("accuracy (%)")
        values = [f"{line.label} {', '.join(number(mean, 1) for mean in line.mean)} %" for line in lines]
        return made.markup(f"steps-{'-'.join(styles)}", f"Ablation, from no FR to the recipe: {'; '.join(values)}.")


def layers_figure(layers: Sequence[AblationRow], key: str) -> Markup:
    """Raw and rectified over the blocks of the network, and what is made of several layers at the right."""
    points = [LayerPoint(row.kind, row.block or _LAYER_PLACES[row.key], row.spread(key)) for row in layers]
    turned = crowded(layer_ticks(points), WIDTH - 52)
    with panel(270 if turned else 240, (42, 10, 63 if turned else 33, 10)) as made:
        draw_layers(made.axes, points, upright=turned)
        made.axes.set_ylabel(f"{label(key)} (%)")
        values = "; ".join(f"{row.label} {number(row.spread(key).mean, 1)} %" for row in layers)
        return made.markup(f"layers-{key}", f"{label(key)} per layer: {values}.")


def sensitivity_figure(curve: SensitivityCurve, limits: tuple[float, float]) -> Markup:
    """gAcc and aAcc over the factor; positions are even, since the factors double."""
    lines = [_line(curve.points, key, style) for key, style in SCORE_STYLES.items()]
    with panel(250, (44, 8, 52, 8)) as made:
        axes = made.axes
        recipe = next(index for index, point in enumerate(curve.points) if point.factor == 1)
        axes.axvline(recipe, color=paint("muted"), linewidth=0.9, dashes=(2, 2))
        for line in lines:
            draw_line(axes, range(len(curve.points)), line, shade=_SHADE)
        # Where two options are scaled together, the axis shows the larger.
        name, value = max(curve.weights.items(), key=lambda weight: weight[1])
        ticks = [f"{factor_text(point.factor)}×\n{point.factor * value:.3g}" for point in curve.points]
        axes.set_xticks(range(len(ticks)), ticks)
        axes.set_xlim(-0.3, len(ticks) - 0.7)
        axes.set_ylim(*limits)
        # Three panels share a line of the page, so that each is drawn smaller than others are.
        axes.tick_params(labelsize=10)
        axes.set_xlabel(f"times the recipe's value, and {name}", fontsize=11)
        axes.set_ylabel("accuracy (%)", fontsize=11)
        ranges = [f"{line.label} from {number(min(line.mean), 1)} to {number(max(line.mean), 1)} %" for line in lines]
        return made.markup(f"beta-{curve.key}", f"Sensitivity to {curve.label}: {'; '.join(ranges)}.")


def sensitivity_limits(curves: Sequence[SensitivityCurve]) -> tuple[float, float]:
    """One range for all panels, so that slopes can be compared."""
    spreads = [point.spread(key) for curve in curves for point in curve.points for key in SCORE_STYLES]
    low = floor(min(value.mean - (value.std or 0) for value in spreads))
    high = ceil(max(value.mean + (value.std or 0) for value in spreads))
    return low - 0.2, max(high, low + 2) + 0.2


def reliability_figure(ablation: Ablation, group: str) -> Markup:
    """Accuracy over confidence in bins of equal mass; on the diagonal confidence can be taken at its word."""
    with panel(300, (42, 10, 33, 10)) as made:
        axes, errors = made.axes, []
        axes.plot([0, 100], [0, 100], color=paint("muted"), linewidth=0.9, dashes=(2, 2))
        for each, moment in product(ablation.predictors, MOMENTS):
            style = PREDICTOR_STYLES.get((each.key, moment))
            if style is None:
                continue
            confidence, accuracy, _ = 100 * np.array(each.bins[moment][group]).T
            axes.plot(confidence, accuracy, **line_look(style, size=0.8) | {"linewidth": 1.3})
            error = number(each.spread(moment, group, "ece_mass").mean, 1)
            errors.append(f"{each.label} {moment} the temperature: calibration error {error} %")
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)
        axes.set_xlabel("confidence (%)")
        axes.set_ylabel("accuracy (%)")
        return made.markup(f"reliability-{group}", f"Accuracy over confidence on {GROUPS[group]}: {'; '.join(errors)}.")


def _line(points: Sequence[AblationRow] | Sequence[SensitivityPoint], key: str, style: Style) -> Line:
    return Line(label(key), np.array([point.scores[key] for point in points]).T, style)

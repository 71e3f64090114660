"""The tables of an ablation: the page, the Markdown file and docs/results.md print the same ones."""

from collections.abc import Sequence
from typing import Any

from fscil.metrics.names import HEADLINE, METRICS, label
from fscil.pages.kit.prose import number, signed
from fscil.pages.kit.table import Table, TableCell, spread_cell, table
from fscil.paper.printed import datasets, tables
from fscil.results.ablation import GROUPS, MOMENTS, SCORES, Ablation
from fscil.results.grouping import dataset_key
from fscil.results.significance import Difference, spread

_PROBABILITY = ("ece_mass", "ece_width", "nll", "brier")
CURVE_SCORES = (HEADLINE, "aacc")
_TEMPERATURES = {
    "left_out": "left-out shots: used",
    "base_training": "base training images: not used",
    "test": "test images: not used",
}
Cells = list[str | TableCell]


def steps_table(ablation: Ablation) -> Table:
    """What each part adds, beside the published ablation where there is one of this data set."""
    published, gains = _published(ablation), ablation.gains()
    first, *others = SCORES
    header = ["", label(first), "gain", *map(label, others), *(["paper gAcc", "paper aAcc"] if published else [])]
    rows: list[Cells] = []
    for row in ablation.steps:
        cells: Cells = [row.label, spread_cell(row.spread(first))]
        cells.append(_gain(gains[row.key]) if row.key in gains else "")
        cells += [spread_cell(row.spread(key)) for key in others]
        rows.append([*cells, *(published.get(row.key, ("", "")) if published else ())])
    return table("What each part adds", header, rows, style="stacked" if published else "")


def choices_table(ablation: Ablation) -> Table:
    """The recipe, and what each choice made otherwise gives on the same draws."""
    gaps = {key: ablation.changed(key) for key in CURVE_SCORES}
    header = ["changed", "option", *(head for key in CURVE_SCORES for head in (label(key), "difference"))]
    rows: list[Cells] = []
    for row in ablation.choices:
        cells: Cells = [row.label, ", ".join(f"{name} = {option_text(value)}" for name, value in row.options.items())]
        for key in CURVE_SCORES:
            cells += [spread_cell(row.spread(key)), _gain(gaps[key][row.key]) if row.key in gaps[key] else ""]
        rows.append([*cells, *(spread_cell(row.spread(key)) for key in ("novel", "base"))])
    return table("One choice of the recipe changed at a time", [*header, label("novel"), label("base")], rows)


def option_text(value: Any) -> str:
    """As it is written in a recipe."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def layers_table(ablation: Ablation) -> Table:
    rows: list[Cells] = [[row.label, *(spread_cell(row.spread(key)) for key in SCORES)] for row in ablation.layers]
    return table("Raw and rectified features of each layer", ["", *map(label, SCORES)], rows)


def sensitivity_table(ablation: Ablation) -> Table:
    curves = [curve for curve in ablation.curves if curve.points]
    shown = [(curve, key) for curve in curves for key in CURVE_SCORES]
    rows: list[Cells] = [
        [factor_text(point.factor), *(spread_cell(curve.points[index].spread(key)) for curve, key in shown)]
        for index, point in enumerate(curves[0].points if curves else ())
    ]
    heads = [f"{curve.label}: {label(key)}" for curve, key in shown]
    return table("Sensitivity to the three weights", ["times the recipe's value", *heads], rows)


def calibration_table(ablation: Ablation, group: str) -> Table:
    shown = [(key, moment) for key in _PROBABILITY for moment in MOMENTS]
    rows: list[Cells] = [
        [each.label, *(spread_cell(each.spread(moment, group, key), METRICS[key].digits) for key, moment in shown)]
        for each in ablation.predictors
    ]
    return table(f"On {GROUPS[group]}", ["", *(f"{label(key)}, {moment}" for key, moment in shown)], rows)


def temperature_table(ablation: Ablation) -> Table:
    rows: list[Cells] = [
        [each.label, *(spread_cell(spread(each.temperatures[key]), 3) for key in _TEMPERATURES)]
        for each in ablation.predictors
    ]
    return table("Temperatures", ["", *_TEMPERATURES.values()], rows)


def cost_table(ablation: Ablation) -> Table:
    share = "of the network"
    header = ["per image", "microseconds", share, "MFLOPs", share, "parameters", share]
    rows = [
        [
            cost.label,
            number(cost.microseconds, 2 if cost.microseconds < 10 else 1),
            _share(cost.microseconds, network.microseconds),
            number(cost.mflops, 3 if cost.mflops < 10 else 1),
            _share(cost.mflops, network.mflops),
            f"{cost.parameters:,}" if cost.parameters else "–",
            _share(cost.parameters, network.parameters) if cost.parameters else "–",
        ]
        for network in ablation.costs
        if network.key == "backbone"
        for cost in ablation.costs
    ]
    return table("What inference costs", header, rows)


def factor_text(factor: float) -> str:
    return {0.25: "1/4", 0.5: "1/2"}.get(factor, f"{factor:g}")


def _gain(difference: Difference) -> TableCell:
    return TableCell(signed(difference.mean), "" if difference.error is None else number(difference.error))


def _share(part: float, whole: float) -> str:
    return f"{number(100 * part / whole, 1)} %"


def _published(ablation: Ablation) -> dict[str, Sequence[str]]:
    """gAcc and aAcc of the paper's ablation rows, if it has this data set with these sessions."""
    key = dataset_key(ablation.dataset)
    plan = datasets().get(key)
    if plan is None or plan.classes != tuple(ablation.classes):
        return {}
    printed = [each for each in tables().values() if each.kind == "ablation" and each.dataset == key]
    return {row.key: (row.cells["gacc"].text, row.cells["aacc"].text) for each in printed for row in each.rows}

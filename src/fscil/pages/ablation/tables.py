"""The tables of an ablation as text cells: the page, the Markdown file and docs/results.md print the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from fscil.pages.kit.markup import number, signed
from fscil.paper.printed import datasets
from fscil.paper.printed import table as printed_table
from fscil.paper.runs import dataset_key
from fscil.results.ablation import GROUPS, QUALITY, SCORES, Ablation, Line
from fscil.results.comparison import Difference, Spread, spread

_PROBABILITY = ("ece_mass", "ece_width", "nll", "brier")
_DIGITS = {"ece_mass": 1, "ece_width": 1, "nll": 2, "brier": 3}
_CURVE_SCORES = ("gacc_grid", "aacc")


@dataclass(frozen=True)
class Table:
    """The first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def steps_table(ablation: Ablation) -> Table:
    """What each part adds, beside the published ablation where there is one of this data set."""
    paper = _published(ablation)
    first, *others = SCORES
    header = ["", SCORES[first], "gain", *(SCORES[key] for key in others)]
    header += ["paper gAcc", "paper aAcc"] if paper else []
    rows = []
    for index, line in enumerate(ablation.steps):
        cells = [line.label, plus_minus(line.spread(first))]
        cells.append(_gain(gain(line, ablation.steps[index - 1])) if index else "")
        cells += [plus_minus(line.spread(key)) for key in others]
        if paper:
            cells += paper.get(line.key, ("", ""))
        rows.append(tuple(cells))
    return Table("What each part adds", tuple(header), tuple(rows))


def layers_table(ablation: Ablation) -> Table:
    rows = [(line.label, *(plus_minus(line.spread(key)) for key in SCORES)) for line in ablation.layers]
    return Table("Raw and rectified features of each layer", ("", *SCORES.values()), tuple(rows))


def sensitivity_table(ablation: Ablation) -> Table:
    curves = [curve for curve in ablation.curves if curve.points]
    header = ["times the recipe's value"]
    header += [f"{curve.label}: {SCORES[key]}" for curve in curves for key in _CURVE_SCORES]
    rows = [
        (
            factor_text(curves[0].points[index].factor),
            *(plus_minus(curve.points[index].spread(key)) for curve in curves for key in _CURVE_SCORES),
        )
        for index in range(len(curves[0].points) if curves else 0)
    ]
    return Table("Sensitivity to the three weights", tuple(header), tuple(rows))


def calibration_table(ablation: Ablation, group: str) -> Table:
    header = ["", *(f"{QUALITY[key]}, {moment}" for key in _PROBABILITY for moment in ("before", "after"))]
    rows = []
    for each in ablation.predictors:
        cells = [
            plus_minus(each.spread(moment, group, key), _DIGITS[key])
            for key in _PROBABILITY
            for moment in ("before", "after")
        ]
        rows.append((each.label, *cells))
    return Table(f"On {GROUPS[group]}", tuple(header), tuple(rows))


def temperature_table(ablation: Ablation) -> Table:
    header = ("", "left-out shots: used", "base training images: not used", "test images: not used")
    rows = [
        (each.label, *(plus_minus(spread(each.temperatures[key]), 3) for key in ("left_out", "base_training", "test")))
        for each in ablation.predictors
    ]
    return Table("Temperatures", header, tuple(rows))


def cost_table(ablation: Ablation) -> Table:
    whole = next((cost for cost in ablation.costs if cost.key == "backbone"), None)
    header = ("per image", "microseconds", "of the network", "MFLOPs", "of the network", "parameters", "of the network")
    rows = []
    for cost in ablation.costs if whole else ():
        assert whole is not None
        rows.append(
            (
                cost.label,
                number(cost.microseconds, 2 if cost.microseconds < 10 else 1),
                _share(cost.microseconds, whole.microseconds),
                number(cost.mflops, 3 if cost.mflops < 10 else 1),
                _share(cost.mflops, whole.mflops),
                f"{cost.parameters:,}" if cost.parameters else "–",
                _share(cost.parameters, whole.parameters) if cost.parameters else "–",
            )
        )
    return Table("What inference costs", header, tuple(rows))


def gain(line: Line, before: Line, key: str = "gacc_grid") -> Difference:
    """Paired over the draws, which all rows share."""
    gaps = spread([a - b for a, b in zip(line.scores[key], before.scores[key], strict=True)])
    return Difference(gaps.mean, None if gaps.std is None else gaps.std / sqrt(gaps.draws), gaps.draws)


def plus_minus(value: Spread, digits: int = 2) -> str:
    return number(value.mean, digits) + ("" if value.std is None else f" ± {number(value.std, digits)}")


def factor_text(factor: float) -> str:
    return {0.25: "1/4", 0.5: "1/2"}.get(factor, f"{factor:g}")


def _gain(difference: Difference) -> str:
    error = "" if difference.error is None else f" ± {number(difference.error)}"
    return f"{signed(difference.mean)}{error}"


def _share(part: float, whole: float) -> str:
    return f"{number(100 * part / whole, 1)} %"


def _published(ablation: Ablation) -> dict[str, Sequence[str]]:
    """gAcc and aAcc of the paper's ablation rows, if it has this data set with these sessions."""
    key = dataset_key(ablation.dataset)
    plan = datasets().get(key)
    name = {"cifar100": "ablation-cifar", "mini": "ablation-mini", "cub200": "ablation-cub"}.get(key)
    if plan is None or name is None or plan.classes != tuple(ablation.classes):
        return {}
    return {row.key: (row.cells["gacc"].text, row.cells["aacc"].text) for row in printed_table(name).rows}

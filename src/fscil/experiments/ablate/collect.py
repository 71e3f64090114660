"""From the cells of a study to one document."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fscil.core.config import to_dict
from fscil.core.hardware import describe
from fscil.core.storage import read_json
from fscil.evaluation.writer import commit
from fscil.experiments.ablate.plan import ENSEMBLE, FACTORS, PARTS, Changes, betas, steps
from fscil.experiments.ablate.study import OTHER_RULE, Study
from fscil.experiments.runner import Cell
from fscil.methods.raw_layers import FINAL, RawLayers, block_label
from fscil.methods.yourself import RECTIFIED, WHITENED
from fscil.results.ablation import (
    MOMENTS,
    SCORES,
    Ablation,
    AblationRow,
    DiagnosedLayer,
    InferenceCost,
    Predictor,
    SensitivityCurve,
    SensitivityPoint,
)

Metrics = Mapping[str, float]


def collect_ablation(study: Study) -> Ablation:
    """Every part whose cells are all there, and every choice; the others stay empty."""
    on, parts = study.on, [part for part in PARTS if study.complete(part)]
    first = study.rectified({}, 0)
    made = read_json(first.path) if first.done else {}  # cells may come from another machine and be collected here
    predictors, costs, batch = _calibration(study) if "calibration" in parts else ((), (), 0)
    return Ablation(
        recipe=study.config.recipe,
        dataset=on.benchmark.name,
        draws=study.config.draws,
        seconds=round(study.seconds(parts), 1),
        network=on.weights,
        hardware=made.get("hardware") or describe(on.device),
        options=study.method.options(),
        config=to_dict(study.config),
        classes=on.benchmark.classes,
        commit=(made["result"]["commit"] if made else commit()) or "",
        steps=_steps(study) if "ablation" in parts else (),
        layers=_layers(study) if "layers" in parts else (),
        choices=_choices(study),
        curves=_curves(study) if "sensitivity" in parts else (),
        diagnosis=_diagnosis(study) if "diagnosis" in parts else (),
        predictors=predictors,
        costs=costs,
        batch=batch,
    )


def _steps(study: Study) -> tuple[AblationRow, ...]:
    raw = _raw(study)
    untrained = {
        "prototypes": [result["variants"][block_label(FINAL)] for result in raw],
        "raw-layers": raw,
        "whitened-means": _results([study.whitened(draw) for draw in range(study.config.draws)]),
    }
    lines = []
    for step in steps(study.method):
        if step.changes is None:
            scores = _scores([result["metrics"] for result in untrained[step.key]])
        else:
            scores = _parts(_rectified(study, step.changes), step.part)
        beside = "beside" if step.key == "whitened-means" else ""
        lines.append(AblationRow(step.key, step.label, scores, beside, options=step.changes or {}, over=step.over))
    return tuple(lines)


def _choices(study: Study) -> tuple[AblationRow, ...]:
    """The recipe as it is, then with one choice changed at a time: those that are measured on every draw."""
    draws = range(study.config.draws)
    measured = [c for c in study.choices() if all(study.rectified(c.changes, draw).done for draw in draws)]
    if all(choice.option == ENSEMBLE for choice in measured):
        return ()  # the other rule of prediction comes with every cell: alone it is no study of choices
    lines = [AblationRow("recipe", "as in the recipe", _parts(_rectified(study, {}), ""))]
    for choice in measured:
        results = _rectified(study, choice.changes)
        scores = _parts(results, OTHER_RULE if choice.option == ENSEMBLE else "")
        key, options = f"{choice.option}={choice.value}", {choice.option: choice.value}
        lines.append(AblationRow(key, choice.label, scores, options=options))
    return tuple(lines)


def _layers(study: Study) -> tuple[AblationRow, ...]:
    """Raw and rectified of each block in turn, then what is of no single block."""
    raw, ours = _raw(study), _rectified(study, {})
    lines = []
    for block in study.blocks:
        label = block_label(block)
        for kind, results in (("raw", raw), ("rectified", ours)):
            scores = _scores([result["variants"][label]["metrics"] for result in results])
            lines.append(AblationRow(f"{block}-{kind}", f"{label}, {kind}", scores, kind, block))

    def variant(name: str) -> dict[str, list[float]]:
        return _scores([result["variants"][name]["metrics"] for result in raw])

    together = "all raw blocks together"
    return (
        *lines,
        AblationRow("final", "final features, raw", variant(block_label(FINAL)), "raw"),
        AblationRow("raw-blocks", together, variant(RawLayers.together), "raw ensemble"),
        AblationRow("raw-all", f"{together}, with the final", _scores([r["metrics"] for r in raw]), "raw ensemble"),
        AblationRow("ensemble", "all rectified blocks together", _parts(ours, RECTIFIED), "ensemble"),
        *(_whitened(ours) if study.method.whitened else ()),
    )


def _whitened(ours: Sequence[Mapping[str, Any]]) -> tuple[AblationRow, ...]:
    return (
        AblationRow("whitened", "whitened layers together", _parts(ours, WHITENED), "whitened"),
        AblationRow("whole", "rectified and whitened together", _parts(ours, ""), "whole"),
    )


def _parts(results: Sequence[Mapping[str, Any]], part: str) -> dict[str, list[float]]:
    """Scores of a part of the ensemble; of the whole where the recipe has no other part."""
    return _scores([result["variants"].get(part, result)["metrics"] for result in results])


def _curves(study: Study) -> tuple[SensitivityCurve, ...]:
    curves = []
    for beta in betas(study.method):
        points = [
            SensitivityPoint(factor, _scores([r["metrics"] for r in _rectified(study, beta.scaled(factor))]))
            for factor in FACTORS
            if any(beta.weights.values())  # nothing times a factor stays nothing
        ]
        curves.append(SensitivityCurve(beta.key, beta.label, beta.about, dict(beta.weights), tuple(points)))
    return tuple(curves)


def _diagnosis(study: Study) -> tuple[DiagnosedLayer, ...]:
    return tuple(DiagnosedLayer(**each) for each in read_json(study.diagnosis().path)["diagnosis"])


def _calibration(study: Study) -> tuple[tuple[Predictor, ...], tuple[InferenceCost, ...], int]:
    draws = [read_json(study.calibration(draw).path)["predictors"] for draw in range(study.config.draws)]
    whole = "the whole ensemble" if study.method.whitened else "FR ensemble"
    labels = {"prototypes": "class means", RECTIFIED: "FR ensemble", WHITENED: "whitened features", "ensemble": whole}
    predictors = [
        Predictor(
            key=key,
            label=labels.get(key, f"FR, {key} alone"),
            temperatures=_listed([draw[key]["temperatures"] for draw in draws]),
            before={group: _listed([draw[key]["before"][group] for draw in draws]) for group in first["before"]},
            after={group: _listed([draw[key]["after"][group] for draw in draws]) for group in first["after"]},
            bins={
                moment: {group: _mean_bins([draw[key]["bins"][moment][group] for draw in draws]) for group in groups}
                for moment, groups in ((moment, first["bins"][moment]) for moment in MOMENTS)
            },
        )
        for key, first in draws[0].items()
    ]
    measured = read_json(study.cost().path)
    costs = tuple(InferenceCost(**cost) for cost in measured["costs"])
    return tuple(predictors), costs, measured["batch"]


def _raw(study: Study) -> list[dict[str, Any]]:
    return _results([study.raw(draw) for draw in range(study.config.draws)])


def _rectified(study: Study, changes: Changes) -> list[dict[str, Any]]:
    return _results([study.rectified(changes, draw) for draw in range(study.config.draws)])


def _results(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    return [read_json(cell.path)["result"] for cell in cells]


def _scores(metrics: Sequence[Metrics]) -> dict[str, list[float]]:
    return {key: [each[key] for each in metrics] for key in SCORES}


def _listed(values: Sequence[Metrics]) -> dict[str, list[float]]:
    return {key: [each[key] for each in values] for key in values[0]}


def _mean_bins(draws: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Bin by bin over the draws; where ties left a draw with fewer bins, those that all have."""
    count = min(len(bins) for bins in draws)
    return np.mean([bins[-count:] for bins in draws], axis=0).tolist()

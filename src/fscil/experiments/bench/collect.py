"""From the cells of a plan to one document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fscil import methods
from fscil.core.errors import InputError
from fscil.core.hardware import describe, pick_device
from fscil.core.storage import read_json
from fscil.evaluation.writer import commit
from fscil.experiments.bench.cells import is_done
from fscil.experiments.bench.engines import Failures
from fscil.experiments.bench.plan import BASELINE, FLOOR, Cell, Entry, Plan, Training
from fscil.results.bench import Bench, Draw, Network, Row
from fscil.results.result import check_comparable, parse_result


def assemble(plan: Plan, failures: Failures) -> Bench:
    """Every method whose draws are all there; the others are named with the reason."""
    whole = [entry for entry in plan.entries if all(is_done(cell) for cell in _cells(plan, entry))]
    left_out = dict(plan.left_out)
    for entry in plan.entries:
        if entry not in whole:
            failure = failures.get((entry.training.key, entry.method))
            left_out[entry.method] = failure.sentence if failure else "Not run yet."
    if not whole:
        raise InputError(f"No method could be run: {' '.join(dict.fromkeys(left_out.values()))}")
    documents = {cell.path: read_json(cell.path) for entry in whole for cell in _cells(plan, entry)}
    results = [parse_result(document, str(path)) for path, document in documents.items()]
    for result in results:
        check_comparable([results[0], result] if result is not results[0] else [result])
    first = results[0]
    return Bench(
        dataset=first.dataset,
        recipe=plan.default.recipe,
        classes=first.matrix.classes,
        test_counts=first.matrix.test_counts,
        shot=plan.default.data.shot,
        same_backbone=plan.request.same_backbone,
        baseline=BASELINE,
        floor=FLOOR,
        rows=tuple(_row(plan, entry) for entry in whole),
        networks=tuple(
            _network(plan, training)
            for training in plan.trainings
            if any(entry.training.key == training.key for entry in whole)
        ),
        left_out=left_out,
        hardware=describe(pick_device(plan.default.accelerator)),
        commit=commit() or "",
    )


def year_of(paper: str) -> int:
    """The year that a citation names; 0 where there is none."""
    years = re.findall(r"\b(?:19|20)\d\d\b", paper)
    return int(years[-1]) if years else 0


def _row(plan: Plan, entry: Entry) -> Row:
    kind = methods.REGISTRY[entry.method]
    documents = [read_json(cell.path) for cell in _cells(plan, entry)]
    return Row(
        method=entry.method,
        title=kind.title,
        paper=kind.paper,
        year=0 if entry.method in (BASELINE, FLOOR) else year_of(kind.paper),  # they stand for no paper
        recipe=entry.config.recipe,
        network=entry.training.key,
        kept=documents[0]["cost"]["kept_numbers"],
        draws=tuple(_draw(document) for document in documents),
        options=documents[0]["config"]["options"].get(entry.method, {}),
        differences=kind.differences,
    )


def _draw(document: Mapping[str, Any]) -> Draw:
    return Draw(
        shots_seed=document["shots_seed"],
        matrix=_tuples(document["matrix"]),
        seconds=float(document["seconds"]["sessions"]),
        memory_mb=float(document["cost"]["peak_memory_mb"]),
    )


def _network(plan: Plan, training: Training) -> Network:
    cells = plan.cells(training)
    controls = [cell for cell in cells if cell.method == BASELINE and is_done(cell)]
    first = read_json(next(cell.path for cell in cells if is_done(cell)))
    return Network(
        key=training.key,
        recipe=training.config.recipe,
        kind=training.config.backbone.name or training.config.backbone.kind,
        objective=training.config.train.objective,
        epochs=training.config.train.epochs,
        seconds=float(first["seconds"]["base"]),
        parameters=first["cost"]["network_parameters"],
        class_means=tuple(_tuples(read_json(cell.path)["matrix"]) for cell in controls),
    )


def _cells(plan: Plan, entry: Entry) -> list[Cell]:
    return [cell for cell in plan.cells(entry.training) if cell.method == entry.method]


def _tuples(rows: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in rows)

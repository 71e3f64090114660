"""From the filled cells of a plan to one document."""

from typing import Any

from fscil import methods
from fscil.core.errors import FaultError, InputError
from fscil.core.storage import read_json
from fscil.evaluation.writer import commit
from fscil.experiments.bench.grid import BenchFailures, Grid
from fscil.experiments.bench.plan import BASELINE, FLOOR, PlannedCell, PlannedMethod
from fscil.experiments.recipes import year_of
from fscil.experiments.runner import NetworkPlace
from fscil.results.bench import Bench, BenchDraw, BenchMethod, BenchNetwork, Rows
from fscil.results.result import Result, check_comparable, parse_result


def collect_bench(grid: Grid, failures: BenchFailures) -> Bench:
    """Every method whose draws are all there; the others are named with the reason."""
    plan = grid.plan
    whole = [planned for planned in plan.methods if all(grid.done(cell) for cell in plan.cells_of(planned))]
    left_out = dict(plan.left_out)
    for planned in plan.methods:
        if planned not in whole:
            failure = failures.get((planned.network.key, planned.method))
            left_out[planned.method] = failure.sentence if failure else "Not run yet."
    if not whole:
        wanting = all(failure.input for failure in failures.values())
        sentence = f"No method could be run: {' '.join(dict.fromkeys(left_out.values()))}"
        raise (InputError if wanting else FaultError)(sentence)
    results = {planned.method: [_read(cell) for cell in plan.cells_of(planned)] for planned in whole}
    check_comparable([result for found in results.values() for result in found])
    first = results[whole[0].method][0]
    keys = {planned.network.key for planned in whole}
    return Bench(
        dataset=first.dataset,
        recipe=plan.default.recipe,
        classes=first.matrix.classes,
        test_counts=first.matrix.test_counts,
        shot=plan.default.data.shot,
        same_backbone=plan.request.same_backbone,
        baseline=BASELINE,
        floor=FLOOR,
        rows=tuple(_method(planned, results[planned.method]) for planned in whole),
        networks=tuple(_network(grid, network) for network in plan.networks if network.key in keys),
        left_out=left_out,
        hardware=first.hardware,
        commit=commit() or "",
    )


def _method(planned: PlannedMethod, results: list[Result]) -> BenchMethod:
    kind = methods.REGISTRY[planned.method]
    options: Any = results[0].config["options"]
    return BenchMethod(
        method=planned.method,
        title=results[0].title,
        paper=kind.paper,
        year=0 if planned.method in (BASELINE, FLOOR) else year_of(kind.paper),  # they stand for no paper
        recipe=planned.config.recipe,
        network=planned.network.key,
        kept=int(results[0].cost["kept_numbers"]),
        draws=tuple(
            BenchDraw(result.shots_seed, _rows(result), result.seconds["sessions"], result.cost["peak_memory_mb"])
            for result in results
        ),
        options=options.get(planned.method, {}),
        differences=kind.differences,
    )


def _network(grid: Grid, network: NetworkPlace) -> BenchNetwork:
    cells = [cell for cell in grid.plan.cells(network) if grid.done(cell)]
    first = _read(cells[0])
    stages = [stage for stage in (network.config.train, network.config.second) if stage]
    return BenchNetwork(
        key=network.key,
        recipe=network.config.recipe,
        kind=network.config.backbone.name or network.config.backbone.kind,
        objective=", then ".join(stage.objective for stage in stages),
        epochs=sum(stage.epochs for stage in stages),
        seconds=first.seconds["base"],
        parameters=int(first.cost["network_parameters"]),
        pretraining=first.pretraining,
        class_means=tuple(_rows(_read(cell)) for cell in cells if cell.method == BASELINE),
    )


def _read(cell: PlannedCell) -> Result:
    return parse_result(read_json(cell.path), str(cell.path))


def _rows(result: Result) -> Rows:
    return tuple(tuple(row) for row in result.matrix.to_lists())

"""Who does the work: this process, one thing after the other, or a ray cluster."""

from __future__ import annotations

import importlib
import os
from typing import Any

from fscil.core.errors import InputError
from fscil.core.hardware import pick_device
from fscil.core.progress import Reporter
from fscil.experiments.bench.cells import Failure, Workplace, attempt_cell, attempt_training, is_done
from fscil.experiments.bench.plan import Cell, Plan, Training

ENGINES = ("local", "ray")
_CORES = 2  # of a ray task: more threads do not help networks of this size


Failures = dict[tuple[str, str], Failure]  # (network, method) -> why it could not be run there


def run_plan(plan: Plan, engine: str, reporter: Reporter, fresh: bool = False) -> Failures:
    """Do what is missing (all of it if `fresh`); returns what could not be done and why."""
    if engine not in ENGINES:
        raise InputError(f"There is no engine '{engine}'; choose local or ray.")
    pending = {
        training.key: [cell for cell in plan.cells(training) if fresh or not is_done(cell)]
        for training in plan.trainings
    }
    cells = sum(len(plan.cells(training)) for training in plan.trainings)
    missing = sum(map(len, pending.values()))
    networks = f"{len(plan.trainings)} network{'s' if len(plan.trainings) > 1 else ''}"
    reporter.say(
        f"{len(plan.entries)} methods on {networks}, {plan.request.draws} draws: {cells} cells, "
        f"{cells - missing} of them done before"
    )
    return (_local if engine == "local" else _ray)(plan, pending, reporter, fresh)


def _local(plan: Plan, pending: dict[str, list[Cell]], reporter: Reporter, fresh: bool) -> Failures:
    """A network's cells follow its training, so that whatever is cut off leaves whole methods behind."""
    failures: Failures = {}
    for number, training in enumerate(plan.trainings, start=1):
        if not pending[training.key]:
            continue
        users = {cell.method for cell in pending[training.key]}
        told = ", ".join(entry.method for entry in plan.entries if entry.training.key == training.key)
        reporter.say(f"Network {number} of {len(plan.trainings)}, {training.key}: {told}")
        place = Workplace(training, reporter, fresh)
        if failure := attempt_training(place):
            failures |= {(training.key, method): failure for method in users}
            reporter.say(f"{training.key}: {failure.sentence}")
            continue
        for cell in pending[training.key]:
            if (training.key, cell.method) in failures:
                continue  # its other draws would fail alike
            if failure := attempt_cell(place, cell):
                failures[training.key, cell.method] = failure
                reporter.say(f"{cell.method}: {failure.sentence}")
    return failures


def _ray(plan: Plan, pending: dict[str, list[Cell]], reporter: Reporter, fresh: bool) -> Failures:
    """Trainings side by side, and the cells of a network side by side once it is trained.

    The output folder must be one that all machines of the cluster see under the same path.
    """
    ray = _import_ray()
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    gpu = pick_device(plan.default.accelerator).type == "cuda"
    share: dict[str, Any] = {"num_cpus": min(_CORES, os.cpu_count() or 1), "num_gpus": 1 if gpu else 0}
    train, learn = ray.remote(**share)(_train_there), ray.remote(**share)(_learn_there)
    waiting: dict[Any, Cell] = {}
    for training in plan.trainings:
        if cells := pending[training.key]:
            trained = train.remote(training, fresh)
            waiting |= {learn.remote(trained, cell): cell for cell in cells}
    failures: Failures = {}
    total = len(waiting)
    with reporter.task("Cells") as update:
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            cell = waiting.pop(done[0])
            if failure := ray.get(done[0]):
                failures.setdefault((cell.training.key, cell.method), failure)
            update(total - len(waiting), total)
    return failures


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise InputError(
            "The engine ray needs the package ray, which is not installed; run `pip install 'fscil[ray]'`, or use "
            "--engine local."
        ) from None


def _train_there(training: Training, fresh: bool) -> Failure | None:
    return attempt_training(Workplace(training, Reporter(quiet=True), fresh))


def _learn_there(before: Failure | None, cell: Cell) -> Failure | None:
    return before or attempt_cell(Workplace(cell.training, Reporter(quiet=True)), cell)

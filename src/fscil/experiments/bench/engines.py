"""Who fills the cells: this process, one after the other, or a ray cluster."""

import importlib
import os
from typing import Any

from fscil import methods
from fscil.core.config import to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import pick_device
from fscil.core.progress import Reporter
from fscil.core.storage import write_json
from fscil.experiments.bench.plan import Plan, PlannedCell, PlannedNetwork
from fscil.experiments.runner import Cell, Failure, NetworkRun

ENGINES = ("local", "ray")
_CORES = 2  # of a ray task: more threads do not help networks of this size

Failures = dict[tuple[str, str], Failure]  # (network, method) -> why it could not be run there


class Grid:
    """The networks of a plan, each opened once, and their cells."""

    def __init__(self, plan: Plan, reporter: Reporter, fresh: bool = False) -> None:
        self.plan, self.reporter = plan, reporter
        self._opened = {network.key: open_network(network, reporter, fresh) for network in plan.networks}

    def on(self, network: PlannedNetwork) -> NetworkRun:
        return self._opened[network.key]

    def done(self, cell: PlannedCell) -> bool:
        on = self.on(cell.network)
        try:
            return on.checkpoint.exists() and cell.path.exists() and on.done(method_cell(on, cell))
        except InputError:
            return False  # its network is not the one that was asked for: said when the cell is filled

    def missing(self, network: PlannedNetwork) -> list[PlannedCell]:
        fresh = self.on(network).fresh
        return [cell for cell in self.plan.cells(network) if fresh or not self.done(cell)]


def open_network(network: PlannedNetwork, reporter: Reporter, fresh: bool) -> NetworkRun:
    return NetworkRun(network.config, network.folder, reporter, checkpoint=network.checkpoint, fresh=fresh)


def method_cell(on: NetworkRun, cell: PlannedCell) -> Cell:
    def make() -> methods.Method:
        return methods.make(cell.method, cell.config.options.get(cell.method))

    return on.cell(make, cell.draw, cell.path, config=cell.config)


def fill_grid(grid: Grid, engine: str) -> Failures:
    """Measure what is missing; returns what could not be done and why."""
    if engine not in ENGINES:
        raise InputError(f"There is no engine '{engine}'; choose {' or '.join(ENGINES)}.")
    plan = grid.plan
    pending = {network.key: grid.missing(network) for network in plan.networks}
    cells = sum(len(plan.cells(network)) for network in plan.networks)
    missing = sum(map(len, pending.values()))
    networks = f"{len(plan.networks)} network{'s' if len(plan.networks) > 1 else ''}"
    grid.reporter.say(
        f"{len(plan.methods)} methods on {networks}, {plan.request.draws} draws: {cells} cells, "
        f"{cells - missing} of them done before"
    )
    for network in plan.networks:
        for cell in pending[network.key] if grid.on(network).fresh else []:
            cell.path.unlink(missing_ok=True)
    return (_local if engine == "local" else _ray)(grid, pending)


def _train(on: NetworkRun) -> Failure | None:
    def work() -> None:
        write_json(on.folder / "config.json", to_dict(on.config))
        _ = on.network
        on.fresh = False  # what is measured from here on is fresh

    return on.attempt(work, on.folder.name)


def _learn(on: NetworkRun, cell: PlannedCell) -> Failure | None:
    return on.attempt(lambda: on.fill([method_cell(on, cell)]), cell.method)


def _local(grid: Grid, pending: dict[str, list[PlannedCell]]) -> Failures:
    """A network's cells follow its training, so that whatever is cut off leaves whole methods behind."""
    plan, failures = grid.plan, Failures()
    for number, network in enumerate(plan.networks, start=1):
        if not pending[network.key]:
            continue
        users = ", ".join(planned.method for planned in plan.methods if planned.network.key == network.key)
        grid.reporter.say(f"Network {number} of {len(plan.networks)}, {network.key}: {users}")
        on = grid.on(network)
        if failure := _train(on):
            failures |= {(network.key, cell.method): failure for cell in pending[network.key]}
            grid.reporter.say(f"{network.key}: {failure.sentence}")
            continue
        for cell in pending[network.key]:
            if (network.key, cell.method) in failures:
                continue  # its other draws would fail alike
            if failure := _learn(on, cell):
                failures[network.key, cell.method] = failure
                grid.reporter.say(f"{cell.method}: {failure.sentence}")
    return failures


def _ray(grid: Grid, pending: dict[str, list[PlannedCell]]) -> Failures:
    """Trainings side by side, and the cells of a network side by side once it is trained.

    The output folder must be one that all machines of the cluster see under the same path.
    """
    plan, ray = grid.plan, _import_ray()
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    gpu = pick_device(plan.default.accelerator).type == "cuda"
    share: dict[str, Any] = {"num_cpus": min(_CORES, os.cpu_count() or 1), "num_gpus": 1 if gpu else 0}
    train, learn = ray.remote(**share)(_train_there), ray.remote(**share)(_learn_there)
    waiting: dict[Any, PlannedCell] = {}
    for network in plan.networks:
        if cells := pending[network.key]:
            trained = train.remote(network, grid.on(network).fresh)
            waiting |= {learn.remote(trained, cell): cell for cell in cells}
    failures: Failures = {}
    total = len(waiting)
    with grid.reporter.task("Cells") as update:
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            cell = waiting.pop(done[0])
            if failure := ray.get(done[0]):
                failures.setdefault((cell.network.key, cell.method), failure)
            update(total - len(waiting), total)
    for network in plan.networks:
        grid.on(network).fresh = False
    return failures


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise InputError(
            "The engine ray needs the package ray, which is not installed; run `pip install 'fscil[ray]'`, or use "
            "--engine local."
        ) from None


def _train_there(network: PlannedNetwork, fresh: bool) -> Failure | None:
    return _train(open_network(network, Reporter(quiet=True), fresh))


def _learn_there(before: Failure | None, cell: PlannedCell) -> Failure | None:
    return before or _learn(open_network(cell.network, Reporter(quiet=True), fresh=False), cell)

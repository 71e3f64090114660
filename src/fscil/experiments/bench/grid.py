"""The cells of a plan, and the tasks that fill them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fscil import __version__, methods
from fscil.core.config import to_dict
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.evaluation.identity import digest
from fscil.experiments.bench.plan import Plan, PlannedCell
from fscil.experiments.engines.record import write_record
from fscil.experiments.engines.run import run_tasks
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import Failure, Opener, Task
from fscil.experiments.engines.training import training_task
from fscil.experiments.runner import Cell, NetworkPlace, NetworkRun

BenchFailures = dict[tuple[str, str], Failure]  # (network, method) -> why it could not be run there


class Grid:
    """The networks of a plan, each opened once, and their cells."""

    def __init__(
        self, plan: Plan, reporter: Reporter, *, fresh: bool = False, settings: EngineSettings | None = None
    ) -> None:
        self.plan, self.reporter, self.fresh = plan, reporter, fresh
        self.settings = settings or EngineSettings()
        self._opened = {network.key: self._place(network).open(reporter) for network in plan.networks}

    def on(self, network: NetworkPlace) -> NetworkRun:
        return self._opened[network.key]

    def _place(self, network: NetworkPlace) -> NetworkPlace:
        """Who only plans needs none of the devices that measure."""
        config = network.config if self.settings.here else replace(network.config, accelerator="cpu")
        return replace(network, config=config)

    def done(self, cell: PlannedCell) -> bool:
        on = self.on(cell.network)
        try:
            if not (on.checkpoint.exists() and cell.path.exists()):
                return False
            found = method_cell(on, cell)
            return on.done(found) if self.settings.here else found.done  # the other machines are not this one
        except InputError:
            return False  # its network is not the one that was asked for: said when the cell is filled

    def clear(self) -> None:
        """Delete what is made anew, so that nothing old is taken, whoever makes it and however often it is begun."""
        for network in self.plan.networks:
            self.on(network).clear()
            for cell in self.plan.cells(network):
                cell.path.unlink(missing_ok=True)


def method_cell(on: NetworkRun, cell: PlannedCell) -> Cell:
    def make() -> methods.Method:
        return methods.make(cell.method, cell.config.options.get(cell.method))

    return on.cell(make, cell.draw, cell.path, config=cell.config)


def fill_grid(grid: Grid) -> BenchFailures:
    """Measure what is missing; returns what could not be done and why."""
    plan = grid.plan
    if grid.fresh:
        grid.clear()
    cells = [cell for network in plan.networks for cell in plan.cells(network)]
    missing = [cell for cell in cells if not grid.done(cell)]
    networks = f"{len(plan.networks)} network{'s' if len(plan.networks) > 1 else ''}"
    grid.reporter.say(
        f"{len(plan.methods)} methods on {networks}, {plan.request.draws} draws: {len(cells)} cells, "
        f"{len(cells) - len(missing)} of them done before"
    )
    write_record(plan.request.out, "bench", plan_tasks(plan, cells), grid.settings)
    owners = {cell_key(cell): (cell.network.key, cell.method) for cell in missing}
    found = run_tasks(
        plan_tasks(plan, missing),
        grid.settings,
        opened=grid.on,
        accelerator=plan.default.accelerator,
        out=plan.request.out,
        reporter=grid.reporter,
    )
    failures: BenchFailures = {}
    for key, failure in found.items():
        if key in owners:
            failures.setdefault(owners[key], failure)
    return failures


def plan_tasks(plan: Plan, wanted: Sequence[PlannedCell]) -> list[Task]:
    """A network's cells follow its training, so that whatever is cut off leaves whole methods behind.

    A method's first draw goes before the others: they take from it what it learned of the base session.
    """
    tasks: list[Task] = []
    for number, network in enumerate(plan.networks, start=1):
        cells = [cell for cell in wanted if cell.network.key == network.key]
        if not cells:
            continue
        users = ", ".join(planned.method for planned in plan.methods if planned.network.key == network.key)
        announcement = f"Network {number} of {len(plan.networks)}, {network.key}: {users}"
        training = training_task(network, announcement)
        first: dict[str, str] = {}
        tasks.append(training)
        for cell in cells:
            key = cell_key(cell)
            before = first.setdefault(cell.method, key)
            kind = f"{network.key}/{cell.method}"
            task = Task(
                key,
                f"{cell.method} on {network.key}, draw {cell.draw}",
                cell.path.parent,
                partial(_measure, cell),
                after=(training.key,) if before == key else (training.key, before),
                group=kind,
                leaves=cell.path,
                kind=kind,
                made_from=digest([__version__, to_dict(cell.config)]),
            )
            tasks.append(task)
    return tasks


def cell_key(cell: PlannedCell) -> str:
    return f"{cell.network.key}/{cell.method}/{cell.draw}"


def _measure(cell: PlannedCell, opened: Opener) -> None:
    on = opened(cell.network)
    on.fill([method_cell(on, cell)])

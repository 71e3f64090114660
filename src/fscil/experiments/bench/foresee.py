"""What `fscil bench` would do, and how long it would take: nothing is trained, measured or written."""

from collections.abc import Mapping
from dataclasses import dataclass

from fscil.core.config import Config
from fscil.core.errors import InputError
from fscil.core.hardware import pick_device
from fscil.experiments.bench.grid import Grid, cell_key, plan_tasks
from fscil.experiments.bench.plan import Plan
from fscil.experiments.engines.forecast import Durations, Forecast, forecast
from fscil.experiments.engines.record import Entry, entry_of, seat_of
from fscil.results.durations import shipped_durations


@dataclass(frozen=True)
class Foreseen:
    """The tasks that are left, each with its seconds where something alike was measured."""

    tasks: tuple[tuple[Entry, float | None], ...]
    done: int  # cells that are there already
    together: Forecast
    most: int | None


def foresee(grid: Grid) -> Foreseen:
    plan, out = grid.plan, grid.plan.request.out
    cells = [cell for network in plan.networks for cell in plan.cells(network)]
    missing = [cell for cell in cells if grid.fresh or not grid.done(cell)]
    seats = [seat_of(entry_of(task, out), out, 0.0, False) for task in plan_tasks(plan, cells)]
    durations = Durations([] if grid.fresh else seats, known(plan))
    there = {seat.entry.key for seat in seats if seat.state == "done"} - {cell_key(cell) for cell in missing}
    kept = {f"{network.key}/base" for network in plan.networks if network.checkpoint or not grid.fresh} & there
    left = [entry for entry in (entry_of(task, out) for task in plan_tasks(plan, missing)) if entry.key not in kept]
    most = grid.settings.side_by_side
    tasks = tuple((entry, durations.of(entry.kind)) for entry in left)
    return Foreseen(tasks, len(cells) - len(missing), forecast(left, durations, most), most)


def known(plan: Plan) -> Mapping[str, float]:
    """Seconds by kind of task, from the project's own results on a machine with such a device."""
    try:
        device = pick_device(plan.default.accelerator).type
    except InputError:
        device = "cuda"  # of the machines that measure, not of this one
    stored = [each for each in shipped_durations() if each.device == device]
    data = plan.default.data.name
    sessions = {each.work: each.seconds for each in stored if each.dataset == data and not each.epochs}
    bases = {each.work: each.seconds / each.epochs for each in stored if each.dataset == data and each.epochs}
    found = {}
    for network in plan.networks:
        if (per_epoch := bases.get(network.config.recipe)) is not None:
            found[f"{network.key}/base"] = per_epoch * _epochs(network.config)
        for cell in plan.cells(network):
            if (seconds := sessions.get(cell.method)) is not None:
                found[f"{network.key}/{cell.method}"] = seconds
    return found


def _epochs(config: Config) -> int:
    return sum(stage.epochs for stage in (config.train, config.second) if stage)

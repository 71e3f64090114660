"""Tasks, on the engine that was chosen."""

from collections.abc import Sequence
from pathlib import Path

from fscil.core.progress import Reporter
from fscil.experiments.engines.local import run_here
from fscil.experiments.engines.on_cores import run_on_cores
from fscil.experiments.engines.on_ray import run_on_ray
from fscil.experiments.engines.on_slurm import run_on_slurm
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import Failures, Opener, Task
from fscil.experiments.engines.training import training_task
from fscil.experiments.runner import NetworkPlace, NetworkRun


def run_tasks(
    tasks: Sequence[Task],
    settings: EngineSettings,
    *,
    opened: Opener,  # of networks that this process has open already
    accelerator: str,
    out: Path,
    reporter: Reporter,
) -> Failures:
    """Do them all; returns what could not be done and why.

    What failed before by a fault would most likely fail again, and is left alone unless that is asked for. What failed
    for want of something, such as space on a disk, is tried again: there may be some now.
    """
    if not tasks:
        return {}
    before = {} if settings.retry_failed else _faults_before(tasks)
    if before:
        reporter.say(f"Failed before and not tried again: {len(before)}; add --retry-failed to do so.")
    if settings.here:
        return run_here(tasks, before, opened, reporter)
    run = {"cores": run_on_cores, "ray": run_on_ray, "slurm": run_on_slurm}[settings.engine]
    return run(tasks, before, settings, accelerator, out, reporter)


def train_on(place: NetworkPlace, settings: EngineSettings, on: NetworkRun) -> None:
    """The network that a command cannot plan without: trained where the settings say, and open here."""
    if not settings.here and not place.trained.exists():
        found = run_tasks(
            [training_task(place)],
            settings,
            opened=lambda place: on,
            accelerator=place.config.accelerator,
            out=place.folder,
            reporter=on.reporter,
        )
        for failure in found.values():
            raise failure.error()
    _ = on.network


def _faults_before(tasks: Sequence[Task]) -> Failures:
    found = {task.key: task.failed_before() for task in tasks}
    return {key: failure for key, failure in found.items() if failure and not failure.input}

"""Tasks, on the engine that was chosen."""

from collections.abc import Sequence
from pathlib import Path

from fscil.core.progress import Reporter
from fscil.experiments.engines.local import run_here
from fscil.experiments.engines.on_ray import run_on_ray
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import Failures, Opener, Task


def run_tasks(
    tasks: Sequence[Task],
    settings: EngineSettings,
    *,
    opened: Opener,  # of networks that this process has open already
    accelerator: str,
    out: Path,
    reporter: Reporter,
) -> Failures:
    """Do them all; returns what could not be done and why."""
    if not tasks:
        return {}
    if settings.here:
        return run_here(tasks, opened, reporter)
    return run_on_ray(tasks, settings, accelerator, out, reporter)

"""Options of the commands that fill grids: who does the work, and what each task gets."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fscil.cli.options import say
from fscil.experiments.engines.settings import EngineSettings, memory_bytes, time_minutes

if TYPE_CHECKING:
    from fscil.experiments.engines.task import Failure

EngineOption = Annotated[
    str, typer.Option("--engine", help="local: here, one by one; cores: here, side by side; ray, slurm: on a cluster.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", help="ray: of the cluster (default: the one that runs here, or a new one).")
]
CpusOption = Annotated[int | None, typer.Option("--cpus-per-task", min=1, help="Cores, and threads, of a task.")]
GpusOption = Annotated[
    float | None, typer.Option("--gpus-per-task", min=0, help="GPUs of a task; ray: 0.25 lets four share one.")
]
MemoryOption = Annotated[str | None, typer.Option("--memory-per-task", help="Memory of a task, such as 4GB.")]
PartitionOption = Annotated[str | None, typer.Option("--partition", help="slurm: of the queue.")]
TimeOption = Annotated[
    str | None,
    typer.Option("--time", help="slurm: of a task, such as 90 or 1:30:00; then it is queued again and goes on."),
]
ParallelOption = Annotated[int | None, typer.Option("--max-parallel", min=1, help="Most tasks at a time.")]
RetriesOption = Annotated[
    int, typer.Option("--retries", min=0, help="How often a task is tried again whose process or machine died.")
]

RetryFailedOption = Annotated[
    bool, typer.Option("--retry-failed", help="Continue, and try again also what failed by a fault.")
]


def engine_settings(
    *,
    engine: EngineOption = "local",
    address: AddressOption = None,
    cpus: CpusOption = None,
    gpus: GpusOption = None,
    memory: MemoryOption = None,
    max_parallel: ParallelOption = None,
    partition: PartitionOption = None,
    time: TimeOption = None,
    retries: RetriesOption = 2,
    retry_failed: RetryFailedOption = False,
) -> EngineSettings:
    return EngineSettings(
        engine=engine,
        address=address,
        cpus=cpus,
        gpus=gpus,
        memory=memory_bytes(memory) if memory is not None else None,
        max_parallel=max_parallel,
        partition=partition,
        minutes=time_minutes(time) if time is not None else None,
        retries=retries,
        retry_failed=retry_failed,
    )


def with_engine(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `settings` is made of the options above, which stand in its place."""
    own = inspect.signature(command, eval_str=True).parameters
    ours = inspect.signature(engine_settings, eval_str=True).parameters

    @functools.wraps(command)
    def filled(**given: Any) -> None:
        command(settings=engine_settings(**{name: given.pop(name) for name in ours}), **given)

    shown = [each for name in own for each in (ours.values() if name == "settings" else [own[name]])]
    shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
    filled.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]  # typer reads both
    filled.__annotations__ = {each.name: each.annotation for each in shown}
    return filled


def tell_failures(failures: Mapping[str, Failure]) -> None:
    """By name; a fault of a program, and not for want of anything, makes the exit code 1."""
    for name, failure in failures.items():
        say(f"fscil: {name} failed: {failure.sentence}", err=True)
    if any(not failure.input for failure in failures.values()):
        raise typer.Exit(1)

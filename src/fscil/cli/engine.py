"""Options of the commands that fill grids: who does the work, and what each task gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fscil.experiments.engines.settings import EngineSettings

EngineOption = Annotated[str, typer.Option("--engine", help="local: here, one by one; ray: on a cluster.")]
AddressOption = Annotated[
    str | None, typer.Option("--address", help="ray: of the cluster (default: the one that runs here, or a new one).")
]
CpusOption = Annotated[int | None, typer.Option("--cpus-per-task", min=1, help="Cores, and threads, of a task.")]
GpusOption = Annotated[
    float | None, typer.Option("--gpus-per-task", min=0, help="GPUs of a task; ray: 0.25 lets four share one.")
]
MemoryOption = Annotated[str | None, typer.Option("--memory-per-task", help="Memory of a task, such as 4GB.")]
ParallelOption = Annotated[int | None, typer.Option("--max-parallel", min=1, help="Most tasks at a time.")]
RetriesOption = Annotated[
    int, typer.Option("--retries", min=0, help="How often a task is tried again whose process or machine died.")
]


def engine_settings(
    engine: str,
    address: str | None,
    cpus: int | None,
    gpus: float | None,
    memory: str | None,
    max_parallel: int | None,
    retries: int,
) -> EngineSettings:
    from fscil.experiments.engines.settings import EngineSettings, memory_bytes

    wanted = memory_bytes(memory) if memory is not None else None
    return EngineSettings(engine, address, cpus, gpus, wanted, max_parallel, retries)

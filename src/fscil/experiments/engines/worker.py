"""A task in a process that was started for it, maybe on another machine.

Only what is made of plain values crosses over: the task, and the world it was planned in.
"""

import contextlib
import faulthandler
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import torch

from fscil.core.progress import Reporter
from fscil.experiments.engines.task import LOG, Failure, Task, perform
from fscil.experiments.runner import NetworkPlace, NetworkRun

_REPORTER = Reporter(quiet=True)  # one, so that networks of one bench share their data


@dataclass(frozen=True)
class World:
    """What paths and devices mean where the work is planned."""

    threads: int  # of a task
    gpus: float  # of a task
    folder: Path = field(default_factory=Path.cwd)  # recipes name data and teachers relative to it
    cache: str = field(default_factory=lambda: os.environ.get("FSCIL_CACHE", ""))

    def enter(self) -> None:
        if self.folder.is_dir():
            os.chdir(self.folder)
        if self.cache:
            os.environ["FSCIL_CACHE"] = self.cache
        if not self.gpus:  # a cluster need not hide the GPUs that nobody asked for
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        torch.set_num_threads(self.threads)


def perform_there(task: Task, world: World) -> Failure | None:
    world.enter()
    with _caught(task.folder / LOG):
        if world.gpus and not torch.cuda.is_available():
            return task.failed(Failure(f"It was given a GPU, and {_cuda()}", input=True))
        return perform(task, _opened, _REPORTER)


def _cuda() -> str:
    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    return f"torch {torch.__version__} there ({built}) sees none; install a torch that fits, or add --device cpu."


@lru_cache(maxsize=2)  # its tasks often have the same network; a GPU has no room for all
def _opened(place: NetworkPlace) -> NetworkRun:
    return place.open(_REPORTER)


@contextlib.contextmanager
def _caught(log: Path) -> Iterator[None]:
    """What libraries print, and where the process was when it fell over, belong to the task's log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8", buffering=1) as file:
        faulthandler.enable(file)
        try:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield
        finally:
            faulthandler.disable()

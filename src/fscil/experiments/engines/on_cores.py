"""Tasks on this machine, side by side, each in a process of its own.

Small networks take one thread, so a machine with more cores has time for more tasks than one.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.hardware import pick_device
from fscil.core.progress import Reporter
from fscil.experiments.engines.schedule import Lost, Outcome, Schedule
from fscil.experiments.engines.settings import EngineSettings, refuse_gpus
from fscil.experiments.engines.task import Failure, Failures, Task
from fscil.experiments.engines.worker import World, perform_there

# A forked process would share threads and devices of this one, which is not allowed to either.
_PROCESSES = multiprocessing.get_context("spawn")


def run_on_cores(
    tasks: Sequence[Task],
    before: Failures,
    settings: EngineSettings,
    accelerator: str,
    out: Path,
    reporter: Reporter,
) -> Failures:
    if accelerator == "cpu":
        refuse_gpus(settings)
    on_gpu = pick_device(accelerator).type == "cuda"
    if on_gpu and not settings.max_parallel:
        raise InputError(
            "--engine cores on a GPU: say by --max-parallel how many tasks may share it, or use --device cpu."
        )
    world = World(threads=settings.cpus or 1, gpus=float(on_gpu))
    most = settings.side_by_side
    reporter.say(f"Side by side: {most} {'process' if most == 1 else 'processes'} of {world.threads} thread(s).")
    pool = CorePool(world)
    try:
        return Schedule(pool, reporter, settings.retries, most).run(tasks, before)
    finally:
        pool.end()


class CorePool:
    """Processes of this machine; one that has done its task is given the next."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._idle: list[_Worker] = []
        self._running: dict[Connection, tuple[_Worker, Task]] = {}

    def submit(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            worker = self._idle.pop() if self._idle else _Worker(self._world)
            worker.give(task)
            self._running[worker.pipe] = worker, task

    def wait(self) -> list[tuple[Task, Outcome]]:
        ended = multiprocessing.connection.wait(list(self._running))
        return [self._outcome(*self._running.pop(pipe)) for pipe in self._running.keys() & set(ended)]

    def end(self) -> None:
        for worker in [*self._idle, *(worker for worker, _ in self._running.values())]:
            worker.process.kill()
            worker.process.join()

    def _outcome(self, worker: "_Worker", task: Task) -> tuple[Task, Outcome]:
        try:
            outcome: Failure | None = worker.pipe.recv()
        except (EOFError, OSError):  # nobody is left to write into it
            worker.process.join()
            return task, Lost(
                "Its process died on the way, without a word: killed, out of memory, or a library's fault."
            )
        self._idle.append(worker)
        return task, outcome


class _Worker:
    def __init__(self, world: World) -> None:
        self.pipe, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_work, args=(theirs, world))
        self.process.start()
        theirs.close()  # so that it ends with the process

    def give(self, task: Task) -> None:
        with contextlib.suppress(OSError):  # it died since its last task, and is found dead when it is waited for
            self.pipe.send(task)


def _work(pipe: Any, world: World) -> None:
    """What a process does: tasks, until it is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who waits for it, and ends it then
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        task = pipe.recv()
        try:
            outcome = perform_there(task, world)
        except Exception as error:
            # Not from the work, which gives failures back: from around it, such as a log that cannot be written.
            outcome = Failure(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", input=False)
        pipe.send(outcome)


def _end_with_parent() -> None:
    """Who continues what a killed command left behind must not find somebody at work there."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)

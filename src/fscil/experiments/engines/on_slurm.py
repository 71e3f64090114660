"""Tasks as jobs of slurm, through submitit: those that can be done at a time are one array.

A job whose time is over, or that has to make room, is put into the queue again by submitit and goes on from its files.
The machines are those that slurm gives, so each job looks first whether its machine sees the same folder and package.
"""

import importlib
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.experiments.engines.machines import Seen, differences, looking, marked
from fscil.experiments.engines.schedule import Lost, Outcome, Schedule
from fscil.experiments.engines.settings import EngineSettings, refuse_gpus
from fscil.experiments.engines.task import FAILURE, Failure, Failures, Task
from fscil.experiments.engines.worker import World, perform_there

CLUSTER = "slurm"  # submitit's name for it; `local` are processes of this machine
JOBS = "jobs"  # folder for what submitit writes
REQUEUES = 50  # of one job, whose time is over: each goes on where the one before was
_CORES = 2  # of a task, as with ray
_MINUTES = 60  # of a job, where --time says nothing
_WARNED = 30  # seconds before its time is over; slurm may be a minute early besides
_POLL = 1.0  # seconds


def run_on_slurm(
    tasks: Sequence[Task],
    before: Failures,
    settings: EngineSettings,
    accelerator: str,
    out: Path,
    reporter: Reporter,
) -> Failures:
    submitit = _import_submitit()
    world = World(threads=settings.cpus or _CORES, gpus=_gpus(settings, accelerator))
    folder = out / JOBS
    _end_former(submitit, folder)
    executor = _executor(submitit, folder, settings, world)
    with marked(out) as note:
        pool = SlurmPool(submitit, executor, Errand(world, Seen(*looking()(str(note), "here", "")), str(note)))
        reporter.say(f"Slurm: jobs of {world.threads} CPU(s), {world.gpus} GPU(s); their output is in {folder}.")
        try:
            # No more than these are handed over at a time, so that several arrays together keep to it.
            return Schedule(pool, reporter, settings.retries, settings.max_parallel).run(tasks, before)
        finally:
            pool.cancel()


@dataclass(frozen=True)
class Errand:
    """What a job does with its task."""

    world: World
    mine: Seen
    note: str

    def __call__(self, task: Task) -> Failure | None:
        found = Seen(*looking()(self.note, socket.gethostname(), "slurm"))
        wrong, _ = differences([found], self.mine)
        return Failure(" ".join(wrong), input=True) if wrong else perform_there(task, self.world)

    def checkpoint(self, task: Task) -> Any:
        """Asked by submitit when the job's time is over: it begins again, and its files say how far it was."""
        return importlib.import_module("submitit").helpers.DelayedSubmission(self, task)


class SlurmPool:
    """What is in slurm's queue, waiting or running."""

    def __init__(self, submitit: Any, executor: Any, errand: Errand) -> None:
        self._submitit, self._executor, self._errand = submitit, executor, errand
        self._running: dict[str, tuple[Any, Task]] = {}

    def submit(self, tasks: Sequence[Task]) -> None:
        problems = self._submitit.core.utils
        try:
            jobs = self._executor.map_array(self._errand, tasks)
        except (problems.FailedJobError, problems.FailedSubmissionError) as error:
            said = "; ".join(line.removeprefix("sbatch: error: ").strip() for line in str(error).splitlines())
            raise InputError(
                f"Slurm does not take the jobs: {said.rstrip('.')}; change --partition, --time or what a task gets."
            ) from None
        self._running |= {task.key: (job, task) for job, task in zip(jobs, tasks, strict=True)}

    def wait(self) -> list[tuple[Task, Outcome]]:
        while not (done := [key for key, (job, _) in self._running.items() if job.done()]):
            time.sleep(_POLL)
        return [(task, self._outcome(job, task)) for job, task in map(self._running.pop, done)]

    def cancel(self) -> None:
        for job, _ in self._running.values():
            job.cancel(check=False)

    def _outcome(self, job: Any, task: Task) -> Outcome:
        problems = self._submitit.core.utils
        try:
            outcome: Failure | None = job.result()
        except problems.FailedJobError as error:  # also an UncompletedJobError, so it is asked for first
            # Not from the work, which gives failures back: from around it, such as a log that cannot be written.
            lines = [line for line in str(error).splitlines() if line.strip() and line[0] not in " -"]
            outcome = Failure(next((line for line in lines[1:] if "Error" in line), lines[0])[:300], input=False)
        except problems.UncompletedJobError:
            return Lost(_ending(str(job.state)))
        if outcome and not (task.folder / FAILURE).exists():
            task.failed(outcome)
        return outcome


def _ending(state: str) -> str:
    if state.startswith("OUT_OF_ME"):
        return "Its job ran out of memory; ask for more with --memory-per-task."
    if state.startswith(("TIMEOUT", "DEADLINE")):
        return "The time of its job was over, and it was not put into the queue again; ask for more with --time."
    return f"Its job ended without a word (slurm says {state}): killed, out of memory, or a library's fault."


def _executor(submitit: Any, folder: Path, settings: EngineSettings, world: World) -> Any:
    try:
        executor = submitit.AutoExecutor(folder, cluster=CLUSTER, **{f"{CLUSTER}_max_num_timeout": REQUEUES})
    except (RuntimeError, ValueError) as error:
        raise InputError(f"Slurm cannot be used from this machine ({error}); run this where `sbatch` works.") from None
    asked: dict[str, Any] = {
        "name": "fscil",
        "timeout_min": settings.minutes or _MINUTES,
        "cpus_per_task": world.threads,
        "gpus_per_node": int(world.gpus) or None,
        "mem_gb": settings.memory and settings.memory / 2**30,
        "slurm_partition": settings.partition,
        "slurm_array_parallelism": settings.max_parallel,
        "slurm_signal_delay_s": _WARNED,
    }
    executor.update_parameters(**{name: value for name, value in asked.items() if value is not None})
    return executor


def _gpus(settings: EngineSettings, accelerator: str) -> int:
    """Slurm is not asked what it has: partitions differ. So a GPU is one that was asked for, in one way or another."""
    if accelerator == "cpu":
        refuse_gpus(settings)
        return 0
    if settings.gpus is None:
        return int(accelerator in ("cuda", "gpu"))
    return int(settings.gpus)


def _end_former(submitit: Any, folder: Path) -> None:
    """Jobs of a command that was killed would write beside those of this one."""
    if CLUSTER == "slurm":
        names = [path.name.removesuffix("_submitted.pkl") for path in folder.glob("*_submitted.pkl")]
        open_ones = [name for name in names if not (folder / f"{name}_0_result.pkl").exists()]
        for number in sorted({name.split("_")[0] for name in open_ones}):
            submitit.SlurmJob(folder, number).cancel(check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _import_submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError:
        raise InputError(
            "The engine slurm needs the package submitit, which is not installed; run `pip install 'fscil[slurm]'`, or "
            "use --engine local."
        ) from None

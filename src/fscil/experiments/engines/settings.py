"""Which engine, and what each of its tasks gets."""

import re
from dataclasses import dataclass

from fscil.core.errors import InputError

ENGINES = ("local", "cores", "ray", "slurm")
# A job loads for a while, is ended up to 90 seconds early, and what it did since its last state is done again.
LEAST_MINUTES = 5
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
# Option of the command, field, and the engines that it is for.
_FOR = (
    ("--address", "address", ("ray",)),
    ("--cpus-per-task", "cpus", ("cores", "ray", "slurm")),
    ("--gpus-per-task", "gpus", ("ray", "slurm")),
    ("--memory-per-task", "memory", ("ray", "slurm")),
    ("--max-parallel", "max_parallel", ("cores", "ray", "slurm")),
    ("--partition", "partition", ("slurm",)),
    ("--time", "minutes", ("slurm",)),
)


@dataclass(frozen=True)
class EngineSettings:
    """None: what fits the machines that there are."""

    engine: str = "local"
    address: str | None = None  # of a ray cluster; None: the one that runs here, else one is started here
    cpus: int | None = None  # of a task, which takes as many threads
    gpus: float | None = None  # of a task; ray: 0.25: four tasks share one
    memory: int | None = None  # bytes that a task may take; no more tasks are started on a machine than fit
    max_parallel: int | None = None  # tasks at a time
    partition: str | None = None  # of slurm
    minutes: int | None = None  # slurm: after which a task is put into the queue again, to continue
    retries: int = 2  # of a task whose worker or machine died
    retry_failed: bool = False  # also what failed before by a fault, and not for want of anything

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise InputError(f"There is no engine '{self.engine}'; choose {', '.join(ENGINES[:-1])} or {ENGINES[-1]}.")
        for option, field, engines in _FOR:
            if getattr(self, field) is not None and self.engine not in engines:
                raise InputError(f"{option} is for --engine {' or '.join(engines)}; add that, or leave it out.")
        gpus = self.gpus
        if gpus is not None and not (0 <= gpus < 1 or gpus == int(gpus)):
            raise InputError(f"--gpus-per-task {gpus:g} cannot be given; take a part of one, or a whole number.")
        if gpus is not None and self.engine == "slurm" and gpus != int(gpus):
            raise InputError(f"--gpus-per-task {gpus:g}: slurm gives whole GPUs; take 0, 1 or more.")
        if self.minutes is not None and self.minutes < LEAST_MINUTES:
            raise InputError(
                f"--time {self.minutes}: in so few minutes a job gets nowhere; give at least {LEAST_MINUTES}."
            )

    @property
    def here(self) -> bool:
        """Whether this process does the work itself."""
        return self.engine == "local"

    @property
    def side_by_side(self) -> int | None:
        """The most tasks at a time; None: as many as a cluster has room for."""
        if self.engine == "cores" and not self.max_parallel:
            from fscil.core.hardware import cores  # here, as it brings torch

            return max(1, cores() // (self.cpus or 1))
        return 1 if self.here else self.max_parallel


def refuse_gpus(settings: EngineSettings) -> None:
    """For work on a CPU."""
    if settings.gpus:
        raise InputError("--gpus-per-task and --device cpu contradict each other; leave one of them out.")


def memory_bytes(text: str) -> int:
    """Of 4GB, 500M or a number of bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found or not (value := int(float(found[1]) * _UNITS[found[2]])):
        raise InputError(f"'{text}' is no amount of memory; write for example 4GB or 500MB.")
    return value


def time_minutes(text: str) -> int:
    """Of 90 (minutes), 1:30:00 or 2-12:00:00, as sbatch reads them; what is less than a minute counts as one."""
    found = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):(\d{1,2}):(\d{1,2})|(\d+))", text.strip())
    if not found:
        raise InputError(f"'{text}' is no time; write for example 90 (minutes), 1:30:00 or 2-12:00:00.")
    days, hours, minutes, seconds, alone = (int(part or 0) for part in found.groups())
    whole = (days * 24 + hours) * 60 + minutes + -(-seconds // 60) + alone
    if not whole:
        raise InputError(f"'{text}' leaves a task no time; give at least a minute.")
    return whole

"""Which engine, and what each of its tasks gets."""

import re
from dataclasses import dataclass

from fscil.core.errors import InputError

ENGINES = ("local", "ray")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class EngineSettings:
    """None: what fits the machines that there are."""

    engine: str = "local"
    address: str | None = None  # of a ray cluster; None: the one that runs here, else one is started here
    cpus: int | None = None  # of a task, which takes as many threads
    gpus: float | None = None  # of a task; 0.25: four tasks share one
    memory: int | None = None  # bytes that a task may take; the cluster starts no more tasks than fit
    max_parallel: int | None = None  # tasks at a time
    retries: int = 2  # of a task whose worker or machine died

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise InputError(f"There is no engine '{self.engine}'; choose {' or '.join(ENGINES)}.")
        if self.gpus is not None and not (0 <= self.gpus < 1 or self.gpus == int(self.gpus)):
            raise InputError(f"--gpus-per-task {self.gpus:g} cannot be given; take a part of one, or a whole number.")
        asked = {
            "--address": self.address,
            "--cpus-per-task": self.cpus,
            "--gpus-per-task": self.gpus,
            "--memory-per-task": self.memory,
            "--max-parallel": self.max_parallel,
        }
        for option in [name for name, value in asked.items() if value is not None] if self.here else []:
            raise InputError(f"{option} is for a cluster; add --engine ray, or leave it out.")

    @property
    def here(self) -> bool:
        """Whether this process does the work itself."""
        return self.engine == "local"


def memory_bytes(text: str) -> int:
    """Of 4GB, 500M or a number of bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found or not (value := int(float(found[1]) * _UNITS[found[2]])):
        raise InputError(f"'{text}' is no amount of memory; write for example 4GB or 500MB.")
    return value

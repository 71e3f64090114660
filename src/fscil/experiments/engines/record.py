"""What a grid is made of and how far it is, from files alone: while it runs, after it was killed, on any machine.

OUT/grid.json holds the tasks as they were planned. What became of each is read from what it left: its result, its
log, or why it failed.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fscil.core.errors import InputError
from fscil.core.storage import is_claimed, read_json, write_json
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import FAILURE, LOG, Task
from fscil.training.checkpoint import read_info

GRID = "grid.json"
State = Literal["done", "failed", "under way", "cut off", "waiting"]


@dataclass(frozen=True)
class Entry:
    """A task as the record keeps it; paths are relative to the output folder."""

    key: str
    label: str
    folder: str
    leaves: str
    kind: str
    after: tuple[str, ...]
    group: str


@dataclass(frozen=True)
class Seat:
    """A task of a record, and what became of it."""

    entry: Entry
    state: State
    seconds: float | None  # that it took
    sentence: str  # why it failed
    log: Path


@dataclass(frozen=True)
class Record:
    command: str
    started: float
    claimed: bool  # whether a command is at work in the folder
    most: int | None  # tasks at a time; None: as many as the machines can
    seats: tuple[Seat, ...]

    def count(self, state: State) -> int:
        return sum(seat.state == state for seat in self.seats)


def entry_of(task: Task, out: Path) -> Entry:
    leaves = _relative(task.leaves, out) if task.leaves else ""
    return Entry(task.key, task.label, _relative(task.folder, out), leaves, task.kind, task.after, task.group)


def write_record(out: Path, command: str, tasks: Sequence[Task], settings: EngineSettings) -> None:
    document = {
        "command": command,
        "started": time.time(),
        "most": settings.side_by_side,
        "tasks": [asdict(entry_of(task, out)) for task in tasks],
    }
    write_json(out / GRID, document)


def read_record(out: Path) -> Record:
    path = out / GRID
    if not path.exists():
        raise InputError(f"{out} holds no grid; give the output folder of fscil bench, tune or ablate.")
    document = read_json(path)
    claimed = is_claimed(out)
    try:
        entries = [Entry(**{**each, "after": tuple(each["after"])}) for each in document["tasks"]]
        started = float(document["started"])
        seats = tuple(seat_of(entry, out, started, claimed) for entry in entries)
        return Record(document["command"], started, claimed, document["most"], seats)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path} is not as it was written; run the command with --resume to make it anew.") from None


def seat_of(entry: Entry, out: Path, started: float, claimed: bool) -> Seat:
    folder = out / entry.folder
    log, failure = folder / LOG, folder / FAILURE

    def seat(state: State, seconds: float | None = None, sentence: str = "") -> Seat:
        return Seat(entry, state, seconds, sentence, log)

    if entry.leaves and (out / entry.leaves).exists():
        return seat("done", took(out / entry.leaves))
    if not entry.leaves and _ended(log, started):
        return seat("done")
    if failure.exists():
        return seat("failed", sentence=_sentence(failure))
    if log.exists() and log.stat().st_mtime >= started:
        return seat("under way" if claimed else "cut off")
    return seat("waiting")


def took(result: Path) -> float | None:
    """Seconds, from what a cell or a training left; None where it does not say."""
    try:
        document: Any = read_json(result) if result.suffix == ".json" else read_info(result)
        return float(document.get("measuring_seconds", document.get("seconds")))
    except (InputError, TypeError, ValueError, AttributeError):
        return None


def _ended(log: Path, started: float) -> bool:
    """Of a task that leaves no file of its own: whether its log says that it came to its end."""
    if not log.exists() or log.stat().st_mtime < started:
        return False
    return log.read_text(encoding="utf-8", errors="replace").rstrip().endswith("Done.")


def _sentence(failure: Path) -> str:
    try:
        return str(read_json(failure)["sentence"])
    except (InputError, KeyError, TypeError):
        return f"{failure} cannot be read."


def _relative(path: Path, out: Path) -> str:
    return path.relative_to(out).as_posix() if path.is_relative_to(out) else str(path)

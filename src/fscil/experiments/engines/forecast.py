"""How long tasks will take, from those alike that were done, and how long all of them together."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fscil.core.progress import Reporter
from fscil.experiments.engines.record import Entry, Seat
from fscil.experiments.engines.schedule import Outcome, Schedule
from fscil.experiments.engines.task import Opener, Task


class Durations:
    """Seconds by kind: what was measured here comes before what is known from elsewhere."""

    def __init__(self, seats: Iterable[Seat], known: Mapping[str, float]) -> None:
        self._known = known
        self._here: dict[str, list[float]] = {}
        for seat in seats:
            if seat.state == "done" and seat.seconds is not None:
                self._here.setdefault(seat.entry.kind, []).append(seat.seconds)

    def of(self, kind: str) -> float | None:
        """The mean of the kind, or of the same work on another network (NETWORK/WORK)."""
        if kind in self._here:
            return fmean(self._here[kind])
        work = kind.rpartition("/")[2]
        alike = [fmean(found) for other, found in self._here.items() if other.rpartition("/")[2] == work]
        return fmean(alike) if alike and work != "base" else self._known.get(kind)


@dataclass(frozen=True)
class Forecast:
    """Of what is left to do."""

    work: float  # seconds, one task after the other
    until: float  # seconds until the last is done, with as many side by side as are allowed and can be
    unknown: int  # tasks of which nothing is known: these numbers are without them


def forecast(entries: Sequence[Entry], durations: Durations, most: int | None) -> Forecast:
    seconds = {entry.key: durations.of(entry.kind) for entry in entries}
    pool = _Imagined({key: found or 0.0 for key, found in seconds.items()})
    tasks = [Task(e.key, e.label, Path(), _nothing, e.after, e.group) for e in entries]  # no work is done
    Schedule(pool, Reporter(quiet=True), 0, most).run(tasks)
    known = [found for found in seconds.values() if found is not None]
    return Forecast(sum(known), pool.now, len(seconds) - len(known))


def _nothing(opened: Opener) -> None: ...


class _Imagined:
    """A pool in which only the clock moves: so the order of tasks is that of the real ones."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.now = 0.0
        self._seconds = seconds
        self._running: list[tuple[float, int, Task]] = []
        self._count = 0

    def submit(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._count += 1  # settles ties, which tasks cannot
            heapq.heappush(self._running, (self.now + self._seconds[task.key], self._count, task))

    def wait(self) -> list[tuple[Task, Outcome]]:
        self.now, _, task = heapq.heappop(self._running)
        return [(task, None)]


def spoken(seconds: float) -> str:
    """As one says it: 40 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

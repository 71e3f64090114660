"""Progress a person can follow: a bar on a terminal, a line now and then elsewhere. On stderr, and in a log on wish."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fscil.core.text import visible

Update = Callable[[int, int], None]  # (done, in total)


class Reporter:
    """Reports what is going on, unless `quiet`; a log gets it in any case."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.quiet = quiet
        self._log: IO[str] | None = None

    def say(self, text: str) -> None:
        self.console.print(visible(text, keep="\n"), soft_wrap=True, markup=False)
        self.note(text)

    def note(self, text: str) -> None:
        """For the log alone."""
        if self._log:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), visible(text, keep="\n"), file=self._log, flush=True)

    @contextlib.contextmanager
    def log_to(self, path: Path) -> Iterator[IO[str]]:
        """Add all that is said inside to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            before, self._log = self._log, file
            try:
                yield file
            finally:
                self._log = before

    @contextlib.contextmanager
    def task(self, label: str) -> Iterator[Update]:
        """A piece of work whose progress is reported by calling the yielded function."""
        label = visible(label)
        written = _lines(label, self.note)
        with contextlib.contextmanager(self._shown)(label) as shown:

            def update(done: int, total: int) -> None:
                shown(done, total)
                written(done, total)

            yield update

    def _shown(self, label: str) -> Iterator[Update]:
        if self.quiet:
            yield lambda done, total: None
        elif self.console.is_terminal:
            yield from self._bar(label)
        else:
            yield progress(label)

    def _bar(self, label: str) -> Iterator[Update]:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(TextColumn("{task.description}", markup=False), *columns, console=self.console) as bar:
            task = bar.add_task(label, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def progress(label: str) -> Update:
    """For programs: a line on stderr now and then, such as `train_base(..., progress=progress("Base training"))`."""
    return _lines(visible(label), lambda line: print(line, file=sys.stderr, flush=True))


def _lines(label: str, write: Callable[[str], None]) -> Update:
    """A line at the start, at the end, and every ten seconds between."""
    started, next_line = time.monotonic(), 0.0  # the next line is due so many seconds after the start

    def update(done: int, total: int) -> None:
        nonlocal next_line
        passed = time.monotonic() - started
        if done >= total or passed >= next_line:
            next_line = passed + 10
            write(f"{label}: {done}/{total} ({passed:.0f} s)")

    return update

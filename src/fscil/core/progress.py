"""Progress a person can follow: a bar on a terminal, a line now and then elsewhere. Always on stderr."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fscil.core.text import visible

Update = Callable[[int, int], None]  # (done, in total)


class Reporter:
    """Reports what is going on, unless `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.quiet = quiet

    def say(self, text: str) -> None:
        self.console.print(visible(text, keep="\n"), soft_wrap=True, markup=False)

    @contextlib.contextmanager
    def task(self, label: str) -> Iterator[Update]:
        """A piece of work whose progress is reported by calling the yielded function."""
        label = visible(label)
        if self.quiet:
            yield lambda done, total: None
        elif self.console.is_terminal:
            yield from self._bar(label)
        else:
            yield self._lines(label)

    def _bar(self, label: str) -> Iterator[Update]:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(TextColumn("{task.description}", markup=False), *columns, console=self.console) as bar:
            task = bar.add_task(label, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    def _lines(self, label: str) -> Update:
        started, next_line = time.monotonic(), 0.0  # the next line is due so many seconds after the start

        def update(done: int, total: int) -> None:
            nonlocal next_line
            passed = time.monotonic() - started
            if done >= total or passed >= next_line:
                next_line = passed + 10
                print(f"{label}: {done}/{total} ({passed:.0f} s)", file=sys.stderr, flush=True)

        return update

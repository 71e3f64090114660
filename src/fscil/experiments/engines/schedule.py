"""The order of tasks: what waits for what, what is tried again, what cannot be done any more."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fscil.core.progress import Reporter
from fscil.experiments.engines.task import LOG, Failure, Failures, Task


@dataclass(frozen=True)
class Lost:
    """The process or the machine that did a task is gone: nothing is known of the task itself."""

    reason: str


Outcome = Failure | Lost | None


class Pool(Protocol):
    """Machines that do tasks side by side."""

    def submit(self, tasks: Sequence[Task]) -> None: ...

    def wait(self) -> list[tuple[Task, Outcome]]:
        """Those that came to an end, as soon as there are some."""
        ...


class Ledger:
    """What failed, now or `before`, and what therefore fails too."""

    def __init__(self, tasks: Sequence[Task], before: Failures) -> None:
        self.failures: dict[str, Failure] = {}
        self._groups: dict[str, Failure] = {}
        for task in tasks:
            if task.key in before:
                self.fail(task, before[task.key])

    def fail(self, task: Task, failure: Failure) -> None:
        self.failures[task.key] = failure
        if task.group:
            self._groups.setdefault(task.group, failure)

    def hopeless(self, task: Task) -> bool:
        """Whether it need not be begun: it, or something before it, or alike, failed; then it failed, too."""
        if task.key in self.failures:
            return True
        reasons = [self.failures[key] for key in task.after if key in self.failures]
        reasons += [self._groups[task.group]] if task.group in self._groups else []
        if reasons:
            self.failures[task.key] = reasons[0]
        return bool(reasons)


class Schedule:
    """Tasks handed to a pool as soon as what they wait for is done, at most `most` at a time."""

    def __init__(self, pool: Pool, reporter: Reporter, retries: int, most: int | None = None) -> None:
        self.pool, self.reporter, self.retries, self.most = pool, reporter, retries, most
        self.ledger = Ledger((), {})
        self._losses: Counter[str] = Counter()

    def run(self, tasks: Sequence[Task], before: Failures | None = None) -> dict[str, Failure]:
        """Do them all but what failed `before`, and what waits for that; returns what could not be done and why."""
        self.ledger = Ledger(tasks, before or {})
        waiting = {task.key: task for task in tasks}  # in their order, also when some are lost and tried again
        running: dict[str, Task] = {}
        with self.reporter.task("Tasks") as update:
            while waiting or running:
                for task in list(waiting.values()):
                    if self.ledger.hopeless(task):
                        del waiting[task.key]
                pending = waiting.keys() | running.keys()
                ready = [task for task in waiting.values() if not pending & set(task.after)]
                ready = ready[: self.most - len(running)] if self.most else ready
                if ready:
                    self.pool.submit(ready)
                for task in ready:
                    running[task.key] = waiting.pop(task.key)
                for task, outcome in self.pool.wait() if running else []:
                    del running[task.key]
                    if isinstance(outcome, Lost):
                        outcome = self._lost(task, outcome, waiting)
                    if outcome:
                        self.ledger.fail(task, outcome)
                        self.reporter.say(f"{task.label}: {outcome.sentence}")
                update(len(tasks) - len(waiting) - len(running), len(tasks))
        return self.ledger.failures

    def _lost(self, task: Task, lost: Lost, waiting: dict[str, Task]) -> Failure | None:
        self._losses[task.key] += 1
        times = self._losses[task.key]
        if times <= self.retries:
            self.reporter.say(f"{task.label}: {lost.reason} It is tried again ({times} of {self.retries}).")
            waiting[task.key] = task
            return None
        often = f" It was tried {times} times." if times > 1 else ""
        return task.failed(Failure(f"{lost.reason}{often} ({task.folder / LOG})", input=False))

"""All tasks in this process, in their order."""

from collections.abc import Sequence

from fscil.core.progress import Reporter
from fscil.experiments.engines.schedule import Ledger
from fscil.experiments.engines.task import Failures, Opener, Task, perform


def run_here(tasks: Sequence[Task], before: Failures, opened: Opener, reporter: Reporter) -> Failures:
    ledger = Ledger(tasks, before)
    for task in tasks:
        if ledger.hopeless(task):
            continue
        if task.announcement:
            reporter.say(task.announcement)
        if failure := perform(task, opened, reporter):
            ledger.fail(task, failure)
            reporter.say(f"{task.label}: {failure.sentence}")
    return ledger.failures

"""A piece of work that any engine can do, and what it leaves beside its result: a log, and why it failed.

FOLDER/log.txt        what was said while it was done, of every attempt, tracebacks included
FOLDER/failure.json   why it could not be done the last time; gone once it is done
"""

import os
import socket
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from fscil import __version__
from fscil.core.errors import FaultError, InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json, write_json
from fscil.experiments.runner import NetworkPlace, NetworkRun

LOG, FAILURE = "log.txt", "failure.json"

Opener = Callable[[NetworkPlace], NetworkRun]


@dataclass(frozen=True)
class Failure:
    """Why something could not be measured, in a sentence."""

    sentence: str
    input: bool  # the user's to fix (or the method's limit), not a fault of the program

    def error(self) -> Exception:
        """Where nothing can be done without it."""
        return (InputError if self.input else FaultError)(self.sentence)


Failures = Mapping[str, Failure]  # by the key of the task


@dataclass(frozen=True)
class Task:
    """One base training, or one cell."""

    key: str
    label: str
    folder: Path  # for its log
    work: Callable[[Opener], object]  # travels to another machine as it is: a partial of a function of a module
    after: tuple[str, ...] = ()  # keys of tasks without which it cannot be done
    group: str = ""  # where one of a group failed, those that have not begun would fail alike
    announcement: str = ""  # what to say before it, where tasks follow each other
    leaves: Path | None = None  # the file that is there once it is done
    kind: str = ""  # tasks of one kind take about as long
    made_from: str = ""  # of a change in it nothing is known: a failure from before is none of it

    def failed(self, failure: Failure) -> Failure:
        note = {"sentence": failure.sentence, "input": failure.input, "made_from": self.made_from}
        write_json(self.folder / FAILURE, note)
        return failure

    def failed_before(self) -> Failure | None:
        """Why it failed the last time, by whatever command, with the same settings and the same package."""
        try:
            note = read_json(self.folder / FAILURE)
            return Failure(note["sentence"], note["input"]) if note["made_from"] == self.made_from else None
        except (InputError, KeyError, TypeError):
            return None


def perform(task: Task, opened: Opener, reporter: Reporter) -> Failure | None:
    """Do it in this process. One method's fault must not cost the others their night: it is written down and named."""
    log = task.folder / LOG
    with reporter.log_to(log):
        reporter.note(f"{task.label}: {_here()}")
        try:
            task.work(opened)
        except InputError as error:
            reporter.note(str(error))
            return task.failed(Failure(str(error), input=True))
        except Exception as error:
            reporter.note("".join(traceback.format_exception(error)))
            reason = " ".join(str(error).split())[:200]
            return task.failed(Failure(f"{type(error).__name__}: {reason} ({log})", input=False))
        finally:
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()  # the next method's peak is its own
        reporter.note("Done.")
    (task.folder / FAILURE).unlink(missing_ok=True)
    return None


def _here() -> str:
    threads = torch.get_num_threads()
    return f"fscil {__version__} on {socket.gethostname()}, process {os.getpid()}, {threads} thread(s)"

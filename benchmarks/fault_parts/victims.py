"""Real processes to hurt: forks of this one, which has imported everything already, so that none waits for torch.

The parent computes nothing with torch: a fork inherits no threads.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 1800.0  # seconds: who takes longer hangs, on a busy machine as well


@dataclass
class Ended:
    """How a process ended: `code` is negative where a signal did it."""

    code: int
    output: str
    seconds: float
    worked: float = 0.0  # seconds of processors, which a busy machine does not add to
    value: Any = None  # of `answer`

    @property
    def refused(self) -> bool:
        """With a sentence, as the command line refuses."""
        return self.code == 2 and "Traceback" not in self.output and "fscil: " in self.output

    @property
    def last_line(self) -> str:
        return (self.output.strip().splitlines() or ["(no output)"])[-1][:300]


class Victim:
    """A forked process that does `work`, with its output in a file."""

    def __init__(self, work: Callable[[], object], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log, self.started = log, time.monotonic()
        self._reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            code = 1
            try:
                os.close(self._reading)
                os.setsid()  # with whatever it starts it can be killed as one
                handle = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
                os.dup2(handle, 1)
                os.dup2(handle, 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
                os.environ.update(environment or {})
                value = work()
                with contextlib.suppress(Exception):
                    os.write(writing, pickle.dumps(value))
                code = 0
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
            except BaseException:
                traceback.print_exc()
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        os.close(writing)

    def wait(self, seconds: float = PATIENCE) -> Ended:
        """Until it ends by itself; one that hangs is killed, and its code is that of the signal."""
        content = b""
        deadline = self.started + seconds
        while time.monotonic() < deadline:
            ready = select.select([self._reading], [], [], max(0.0, deadline - time.monotonic()))[0]
            piece = os.read(self._reading, 1 << 20) if ready else b""
            content += piece
            if not piece:
                break
        while time.monotonic() < deadline and not self._gone():
            time.sleep(0.005)
        return self._ended(content)

    def kill(self) -> Ended:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # before it made a group of its own
            os.kill(self.process, signal.SIGKILL)
        return self._ended(b"")

    def alive(self) -> bool:
        return not self._gone()

    def _gone(self) -> bool:
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _ended(self, content: bytes) -> Ended:
        if not self._gone():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
        _, status, used = os.wait4(self.process, 0)
        code = os.waitstatus_to_exitcode(status)
        os.close(self._reading)
        output = self.log.read_text(errors="replace") if self.log.exists() else ""
        value = None
        with contextlib.suppress(Exception):
            value = pickle.loads(content)
        return Ended(code, output, time.monotonic() - self.started, used.ru_utime + used.ru_stime, value)


def command(*arguments: object) -> Callable[[], None]:
    """`fscil ARGUMENTS`, as its own process would run it."""

    def work() -> None:
        from fscil.cli.main import main

        sys.argv = ["fscil", *map(str, arguments)]
        main()

    return work


def run_fscil(arguments: Sequence[object], log: Path, seconds: float = PATIENCE) -> Ended:
    """The command, until it ends."""
    return Victim(command(*arguments), log).wait(seconds)


def answer(work: Callable[[], Any], log: Path, seconds: float = PATIENCE) -> Ended:
    """What `work` returns, in a process of its own; an InputError is a refusal as on the command line."""

    def guarded() -> Any:
        from fscil.core.errors import InputError

        try:
            return work()
        except InputError as error:
            print(f"fscil: {error}", file=sys.stderr)
            raise SystemExit(2) from None

    return Victim(guarded, log).wait(seconds)

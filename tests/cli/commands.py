"""Commands as a user gives them, without waiting for torch to load at each one.

`fscil` runs in this process. A `Process` stands beside the test and can be interrupted or killed; it is forked from a
server that has loaded torch and computed nothing. `program` is started as the shell does it.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from fscil.cli import main as cli

LONG = 600  # seconds: what a command may take on a busy machine
_SERVER = multiprocessing.get_context("forkserver")
Done = subprocess.CompletedProcess[str]


def fscil(*arguments: object, cwd: Path | None = None) -> Done:
    """What it prints and its exit code."""
    words, (out, err) = ["fscil", *map(str, arguments)], (io.StringIO(), io.StringIO())
    before, columns = sys.argv, os.environ.get("COLUMNS")
    sys.argv, os.environ["COLUMNS"] = words, "200"
    try:
        with contextlib.chdir(cwd or "."), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as left:
        return Done(words, int(left.code or 0), out.getvalue(), err.getvalue())
    finally:
        sys.argv = before
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns
    raise AssertionError("main() came back")


def program(*arguments: object, cwd: Path | None = None) -> Done:
    words = [sys.executable, "-m", "fscil", *map(str, arguments)]
    columns = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(words, env=columns, capture_output=True, text=True, cwd=cwd, timeout=LONG, check=False)


class Process:
    """A program that runs beside the test; `log` is the beginning of the names of two files for what it prints.

    `threads`: as many as OMP_NUM_THREADS would give it.
    """

    def __init__(
        self, *arguments: object, log: Path, threads: int = 1, program: Callable[[], int | None] = cli.main
    ) -> None:
        self.words, self._files = [program.__module__, *map(str, arguments)], [f"{log}.out", f"{log}.err"]
        work = program, self.words, self._files, threads
        self._process = _SERVER.Process(target=_work, args=work, daemon=True)
        self._process.start()

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    @property
    def over(self) -> bool:
        return not self._process.is_alive()

    def wait(self) -> Done:
        self._process.join(LONG)
        code = self._process.exitcode
        assert code is not None, f"{' '.join(self.words)} hangs"
        return Done(self.words, code, *(Path(file).read_text(encoding="utf-8") for file in self._files))

    def kill(self) -> None:
        self._process.kill()
        self._process.join(LONG)


def _work(program: Callable[[], int | None], words: list[str], files: list[str], threads: int) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    # Tests that a shell runs in the background inherit a deaf ear for Ctrl-C; a user at a terminal has none.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(threads)
    sys.argv = words
    sys.exit(program())

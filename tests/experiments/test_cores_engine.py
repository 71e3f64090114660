"""The engine cores: processes of this machine, side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from commands import LONG, fscil

from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json
from fscil.experiments.bench.grid import Grid, fill_grid
from fscil.experiments.bench.plan import BenchRequest, make_plan
from fscil.experiments.engines import on_cores
from fscil.experiments.engines.on_cores import CorePool, run_on_cores
from fscil.experiments.engines.schedule import Schedule
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import LOG, Opener, Task
from fscil.experiments.engines.worker import World

QUIET = Reporter(quiet=True)
QUICK = ("train.epochs=2", "options.yourself.base_steps=2", "options.yourself.novel_steps=2")


def matrices(out: Path) -> dict[str, object]:
    found = {}
    for path in out.glob("networks/*/*/*/result.json"):
        document = read_json(path)
        found["/".join(path.parts[-3:-1])] = (document["matrix"], document["inputs"])
    return found


def test_the_same_matrices_as_one_by_one(tmp_path: Path) -> None:
    here = make_plan(BenchRequest("digits", "yourself", draws=2, overrides=QUICK, out=tmp_path / "here"))
    assert not fill_grid(Grid(here, QUIET))
    done = fscil(
        *("bench", "--data", "digits", "--methods", "yourself", "--seeds", 2, "--out", tmp_path / "cores"),
        *(part for setting in QUICK for part in ("--set", setting)),
        *("--engine", "cores", "--max-parallel", 2),
    )
    assert done.returncode == 0, done.stderr
    assert "Side by side: 2 processes of 1 thread(s)." in done.stderr
    assert matrices(tmp_path / "cores") == matrices(tmp_path / "here")


def write_process(path: Path, opened: Opener) -> None:
    """Waits until there is another one: they are side by side."""
    (path.parent / f"{os.getpid()}.pid").touch()
    path.write_text(str(os.getpid()))
    while len(list(path.parent.glob("*.pid"))) < 2:
        time.sleep(0.05)


def die(opened: Opener) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(path: Path, opened: Opener) -> None:
    if not path.exists():
        path.touch()
        die(opened)


def fail(opened: Opener) -> None:
    raise ValueError("No good.")


def task(folder: Path, name: str, work: partial[None] | object, **more: object) -> Task:
    return Task(name, name, folder / "logs" / name, work, **more)  # type: ignore[arg-type]


@pytest.fixture
def pool() -> Iterator[CorePool]:
    made = CorePool(World(threads=1, gpus=0))
    yield made
    made.end()


def test_two_at_a_time_in_processes_that_do_one_task_after_the_other(tmp_path: Path, pool: CorePool) -> None:
    names = ["a", "b", "c", "d"]
    tasks = [task(tmp_path, name, partial(write_process, tmp_path / name)) for name in names]
    assert not Schedule(pool, QUIET, 0, 2).run(tasks)
    found = {(tmp_path / name).read_text() for name in names}
    assert len(found) == 2
    assert str(os.getpid()) not in found


def test_who_dies_costs_tries_and_not_the_others(tmp_path: Path, pool: CorePool) -> None:
    tasks = [
        task(tmp_path, "dies", die),
        task(tmp_path, "waits", fail, after=("dies",)),
        task(tmp_path, "once", partial(die_once, tmp_path / "once.mark")),
        task(tmp_path, "fails", fail),
    ]
    failures = Schedule(pool, QUIET, 1, 2).run(tasks)
    assert set(failures) == {"dies", "waits", "fails"}
    assert "died on the way" in failures["dies"].sentence
    assert "It was tried 2 times." in failures["dies"].sentence
    assert "ValueError: No good." in failures["fails"].sentence
    assert "Traceback" in (tmp_path / "logs" / "fails" / LOG).read_text()


def test_what_fails_around_the_work_is_a_failure(tmp_path: Path, pool: CorePool) -> None:
    """Its log cannot be written, since a file stands in place of the folder."""
    (tmp_path / "file").touch()
    failures = Schedule(pool, QUIET, 1, 1).run([Task("x", "x", tmp_path / "file" / "x", fail)])
    assert "NotADirectoryError" in failures["x"].sentence or "FileExistsError" in failures["x"].sentence


def wait_for_ever(path: Path, opened: Opener) -> None:
    path.write_text(str(os.getpid()))
    while True:
        time.sleep(0.1)


def hold(folder: Path) -> None:
    """What the command does that is killed."""
    run_on_cores(
        [task(folder, "x", partial(wait_for_ever, folder / "pid"))], {}, EngineSettings("cores"), "cpu", folder, QUIET
    )


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="asks the system whether a process lives, as Unix does")
def test_nobody_goes_on_after_a_command_that_was_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    words = (
        f"import sys; sys.path[:0] = {sys.path!r}; import {__name__} as here; here.hold(here.Path({str(tmp_path)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", words]) as command:
        until(lambda: note.exists() and note.read_text())
        command.kill()
    worker = int(note.read_text())
    until(lambda: not alive(worker))


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_how_many_side_by_side() -> None:
    assert EngineSettings("local").side_by_side == 1
    assert EngineSettings("ray").side_by_side is None
    assert EngineSettings("cores", max_parallel=3).side_by_side == 3
    every = EngineSettings("cores").side_by_side
    assert every
    assert EngineSettings("cores", cpus=every).side_by_side == 1
    assert EngineSettings("cores", cpus=every + 1).side_by_side == 1


def test_a_gpu_is_shared_by_as_many_as_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(on_cores, "pick_device", lambda accelerator: torch.device("cuda"))
    with pytest.raises(InputError, match="say by --max-parallel how many"):
        run_on_cores([], {}, EngineSettings("cores"), "auto", tmp_path, QUIET)
    assert run_on_cores([], {}, EngineSettings("cores", max_parallel=2), "auto", tmp_path, QUIET) == {}

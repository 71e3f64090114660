"""The engine slurm: real jobs by submitit's local executor, and what slurm is asked, by programs of its names."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import fscil

from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json
from fscil.evaluation.identity import weights_sha256
from fscil.experiments.engines import on_slurm
from fscil.experiments.engines.machines import Seen
from fscil.experiments.engines.on_slurm import Errand, SlurmPool, _ending, run_on_slurm
from fscil.experiments.engines.schedule import Lost
from fscil.experiments.engines.settings import EngineSettings, time_minutes
from fscil.experiments.engines.task import Failure, Opener, Task
from fscil.experiments.engines.training import training_task
from fscil.experiments.engines.worker import World
from fscil.experiments.runner import NetworkPlace
from fscil.training.trainer import Trainer

submitit = pytest.importorskip("submitit")
cloudpickle = pytest.importorskip("cloudpickle")
cloudpickle.register_pickle_by_value(__import__(__name__))
QUIET = Reporter(quiet=True)
FEW = ("train.epochs=2", "accelerator=cpu", "options.yourself.base_steps=2", "options.yourself.novel_steps=2")
QUICK = [part for setting in FEW for part in ("--set", setting)]


@pytest.fixture
def jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are processes of this machine."""
    monkeypatch.setattr(on_slurm, "CLUSTER", "local")
    monkeypatch.setattr(on_slurm, "_POLL", 0.05)
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 0)


def run(tasks: list[Task], out: Path, **asked: Any) -> dict[str, Failure]:
    return dict(run_on_slurm(tasks, {}, EngineSettings("slurm", cpus=1, **asked), "cpu", out, QUIET))


@pytest.mark.usefixtures("jobs_here")
@pytest.mark.parametrize(
    ("command", "cells", "jobs"),
    [
        (["bench", "--data", "digits", "--methods", "prototypes", "--max-parallel", 2], 2, 3),
        (["tune", "digits", "--try", "whitened=0"], 2, 3),
        (["ablate", "digits", "--only", "layers"], 2, 4),
    ],
    ids=lambda it: it[0] if isinstance(it, list) else "",
)
def test_every_grid_gives_what_it_gives_here(command: list[Any], cells: int, jobs: int, tmp_path: Path) -> None:
    found = []
    for engine in (["local"], ["slurm", "--cpus-per-task", 1]):
        out = tmp_path / engine[0]
        words = command if engine[1:] else [word for word in command if word not in ("--max-parallel", 2)]
        done = fscil(*words, "--seeds", 1, "--out", out, *QUICK, "--engine", *engine)
        assert done.returncode == 0, done.stderr
        files = [path for path in out.rglob("*.json") if "inputs" in (document := read_json(path)) and document]
        documents = {path.relative_to(out): read_json(path) for path in files}
        found.append({name: (each.get("result", each)["matrix"], each["inputs"]) for name, each in documents.items()})
    assert found[0] == found[1]
    assert len(found[0]) == cells
    logs = [path.read_text() for path in out.rglob("log.txt")]
    assert len(logs) == jobs
    assert all("1 thread(s)" in log and f"process {os.getpid()}," not in log for log in logs)
    assert not list(out.rglob(".machines*"))


def dies(opened: Opener) -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # as the system does where memory is short


def fails(opened: Opener) -> None:
    raise ValueError("No good.")


def works(mark: Path, opened: Opener) -> None:
    mark.touch()


def interrupted(begun: Path, work: Callable[[Opener], object], opened: Opener) -> None:
    """A training that is killed after its seventh update, and whose job's time is over after the fourteenth."""
    with open(begun, "a") as file:
        file.write("x")
    save, (end, signal_) = (
        Trainer.save_state,
        ((7, signal.SIGKILL), (14, signal.SIGUSR2), (0, 0))[begun.stat().st_size - 1],
    )

    def save_and_end(trainer: Trainer) -> None:
        save(trainer)
        if trainer.done == end:
            os.kill(os.getpid(), signal_)  # USR2 is what submitit has slurm send

    Trainer.save_state = save_and_end  # type: ignore[method-assign]  # the job's process ends with it
    work(opened)


@pytest.mark.usefixtures("jobs_here")
def test_jobs_that_die_and_jobs_that_are_queued_again(tmp_path: Path) -> None:
    config = configs.load("digits", ["train.epochs=2", "train.checkpoint_seconds=0", "accelerator=cpu"])
    here, there = (NetworkPlace(config, tmp_path / name) for name in ("here", "there"))
    training = training_task(there)
    tasks = [
        Task("a", "A", tmp_path / "a", dies),
        replace(training, work=partial(interrupted, tmp_path / "begun", training.work)),
        Task("e", "E", tmp_path / "e", partial(works, tmp_path / "e-mark"), after=("a",)),
    ]
    failures = run(tasks, tmp_path, retries=1)
    assert set(failures) == {"a", "e"}
    assert "ended without a word" in failures["a"].sentence
    assert f"It was tried 2 times. ({tmp_path / 'a' / 'log.txt'})" in failures["a"].sentence
    assert failures["e"] == failures["a"]
    assert read_json(tmp_path / "a" / "failure.json")["sentence"] == failures["a"].sentence
    assert not (tmp_path / "e-mark").exists()

    log = (training.folder / "log.txt").read_text()
    begun = [re.search(r"Base training: (\d+)/", attempt) for attempt in log.split(f"{training.label}: fscil")[1:]]
    assert [found and int(found[1]) for found in begun] == [1, 8, 15]
    assert weights_sha256(there.trained) == (here.open(QUIET).weights)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of slurm's names that write down what they are asked, and submit nothing."""
    folder, said = tmp_path / "bin", tmp_path / "said"
    folder.mkdir()
    said.mkdir()
    answers = {
        "sbatch": f'cp "$1" {said}/sbatch && echo "Submitted batch job 77"',
        "scancel": f'echo "$@" >> {said}/scancel',
        "srun": "exit 1",
        "sacct": "echo 'JobID|State|NodeList'",
    }
    for name, script in answers.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return said


def test_what_slurm_is_asked_for(commands: Path, tmp_path: Path) -> None:
    asked = EngineSettings(
        "slurm", cpus=4, gpus=2, memory=6 * 2**30, max_parallel=3, partition="long", minutes=time_minutes("2:30:00")
    )
    world = World(threads=4, gpus=2)
    executor = on_slurm._executor(submitit, tmp_path / "jobs", asked, world)
    pool = SlurmPool(submitit, executor, Errand(world, Seen("here", "", "1", {}), str(tmp_path / "note")))
    pool.submit([Task(name, name, tmp_path / name, fails) for name in "abc"])
    lines = (commands / "sbatch").read_text().splitlines()
    for wanted in (
        *("--array=0-2%3", "--cpus-per-task=4", "--gpus-per-node=2", "--mem=6GB", "--partition=long", "--time=150"),
        *("--job-name=fscil", "--open-mode=append"),
    ):
        assert f"#SBATCH {wanted}" in lines
    assert "#SBATCH --signal=USR2@30" in lines
    assert "-m submitit.core._submit" in lines[-1]
    pool.cancel()
    assert (commands / "scancel").read_text().split() == ["77_0", "77_1", "77_2"]


def test_what_slurm_refuses_is_said(commands: Path, tmp_path: Path) -> None:
    program = commands.parent / "bin" / "sbatch"
    program.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: long' >&2\nexit 1\n")
    with pytest.raises(InputError, match="does not take the jobs: invalid partition specified: long; change"):
        run([Task("a", "A", tmp_path / "a", fails)], tmp_path, partition="long")


def test_jobs_of_a_command_that_was_killed_are_ended(commands: Path, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name in ("5_0_submitted.pkl", "5_1_submitted.pkl", "5_0_0_result.pkl", "6_submitted.pkl", "6_0_result.pkl"):
        (jobs / name).touch()
    on_slurm._end_former(submitit, jobs)
    assert (commands / "scancel").read_text().split() == ["5"]
    assert not jobs.exists()


@pytest.mark.parametrize(
    ("state", "words"),
    [("OUT_OF_MEMORY", "--memory-per-task"), ("TIMEOUT", "--time"), ("NODE_FAIL", "slurm says NODE_FAIL")],
)
def test_how_jobs_end(state: str, words: str) -> None:
    assert words in _ending(state)


def test_a_machine_with_another_package_does_nothing(tmp_path: Path) -> None:
    errand = Errand(World(threads=1, gpus=0), Seen("here", "", "another", {}), str(tmp_path / "absent"))
    found = errand(Task("a", "A", tmp_path / "a", partial(works, tmp_path / "mark")))
    assert found is not None
    assert found.input
    assert "install the same on both" in found.sentence
    assert "all machines share under one path" in found.sentence
    assert not (tmp_path / "mark").exists()


def test_without_slurm_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="where `sbatch` works"):
        run([Task("a", "A", tmp_path / "a", fails)], tmp_path)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"engine": "local", "partition": "long"}, "--partition is for --engine slurm; add that"),
        ({"engine": "ray", "minutes": 3}, "--time is for --engine slurm; add that"),
        ({"engine": "slurm", "address": "x"}, "--address is for --engine ray; add that"),
        ({"engine": "slurm", "gpus": 0.5}, "whole GPUs"),
        ({"engine": "slurm", "minutes": 4}, "at least 5"),
    ],
)
def test_options_of_other_engines_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        EngineSettings(**asked)


def test_gpus_are_those_asked_for() -> None:
    assert on_slurm._gpus(EngineSettings("slurm"), "auto") == 0
    assert on_slurm._gpus(EngineSettings("slurm"), "cuda") == 1
    assert on_slurm._gpus(EngineSettings("slurm", gpus=3), "auto") == 3
    with pytest.raises(InputError, match="contradict"):
        on_slurm._gpus(EngineSettings("slurm", gpus=1), "cpu")


@pytest.mark.parametrize(
    ("text", "minutes"), [("90", 90), ("1:30:00", 90), ("2-12:00:00", 3600), ("0:00:01", 1), ("1:00:30", 61)]
)
def test_times_as_sbatch_reads_them(text: str, minutes: int) -> None:
    assert time_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "1:30", "1.5"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="time"):
        time_minutes(text)


def test_lost_is_not_failed() -> None:
    class Job:
        state = "NODE_FAIL"

        def result(self) -> None:
            raise submitit.core.utils.UncompletedJobError("gone")

    pool = SlurmPool(submitit, None, None)  # type: ignore[arg-type]
    assert isinstance(pool._outcome(Job(), Task("a", "A", Path(), fails)), Lost)


def test_a_fault_around_the_work_is_no_loss(tmp_path: Path) -> None:
    said = (
        "Job (task=0) failed during processing with trace:\n---\nTraceback:\n  a line\nOSError: Full.\n---\nSee logs."
    )

    class Job:
        def result(self) -> None:
            raise submitit.core.utils.FailedJobError(said)

    pool = SlurmPool(submitit, None, None)  # type: ignore[arg-type]
    assert pool._outcome(Job(), Task("a", "A", tmp_path, fails)) == Failure("OSError: Full.", input=False)
    assert read_json(tmp_path / "failure.json")["sentence"] == "OSError: Full."

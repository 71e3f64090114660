"""How far a grid is and how long it may take: by its files, by hand-made durations, and as the commands print it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import fscil

from docs_maker.former import differing
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json, write_json
from fscil.experiments.bench import grid as grids
from fscil.experiments.bench.plan import PlannedCell
from fscil.experiments.engines.forecast import Durations, forecast, spoken
from fscil.experiments.engines.record import Entry, Seat, read_record, write_record
from fscil.experiments.engines.run import run_tasks
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import Failures, Opener, Task
from fscil.results.durations import durations, shipped_durations

QUIET = Reporter(quiet=True)
QUICK = ["--set", "train.epochs=2", "--set", "accelerator=cpu"]


def entry(key: str, kind: str, *after: str) -> Entry:
    return Entry(key, key, key, f"{key}.json", kind, after, "")


def test_a_forecast_is_that_of_the_schedule() -> None:
    """Two trainings of 10 s and 4 s; after the first a cell of 1 s, and two of 5 s after the second."""
    entries = [
        entry("a", "a/base"), entry("b", "b/base"), entry("a1", "a/x", "a"), entry("b1", "b/y", "b"),
        entry("b2", "b/y", "b", "b1"), entry("c", "c/odd"),
    ]  # fmt: skip
    known = {"a/base": 10.0, "b/base": 4.0, "a/x": 1.0, "b/y": 5.0}
    found = {most: forecast(entries, Durations([], known), most) for most in (1, 2, None)}
    assert {each.work for each in found.values()} == {25.0}
    assert {each.unknown for each in found.values()} == {1}
    assert found[1].until == 25.0
    assert found[2].until == 14.0  # b and its cells one after the other; a and its cell beside them
    assert found[None].until == 14.0


def test_what_was_measured_here_comes_first() -> None:
    def done(kind: str, seconds: float) -> Seat:
        return Seat(entry(kind, kind), "done", seconds, "", Path())

    here = Durations([done("n/x", 2.0), done("n/x", 4.0), done("n/base", 60.0)], {"n/x": 9.0, "m/z": 7.0})
    assert here.of("n/x") == 3.0
    assert here.of("m/x") == 3.0  # the same method on another network
    assert here.of("m/z") == 7.0
    assert here.of("m/base") is None  # another network may take any time
    assert here.of("m/w") is None


@pytest.mark.parametrize(("seconds", "words"), [(3.2, "3 s"), (100, "2 min"), (5999, "100 min"), (9000, "2.5 h")])
def test_times_as_one_says_them(seconds: float, words: str) -> None:
    assert spoken(seconds) == words


def test_states_are_read_from_files(tmp_path: Path) -> None:
    def task(name: str) -> Task:
        return Task(name, name, tmp_path / name, len, leaves=tmp_path / name / "result.json", kind=name)  # type: ignore[arg-type]

    tasks = [task(name) for name in ("done", "failed", "begun", "waiting", "long-ago")]
    tasks.append(Task("bare", "bare", tmp_path / "bare", len))  # type: ignore[arg-type]
    (tmp_path / "long-ago").mkdir()
    (tmp_path / "long-ago" / "log.txt").write_text("of another command")
    os.utime(tmp_path / "long-ago" / "log.txt", (1e9, 1e9))
    write_record(tmp_path, "bench", tasks, EngineSettings("ray", max_parallel=3))
    write_json(tmp_path / "done" / "result.json", {"measuring_seconds": 1.5})
    write_json(tmp_path / "failed" / "failure.json", {"sentence": "Why.", "input": False, "made_from": ""})
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "log.txt").write_text("so far")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "log.txt").write_text("2026 Done.\n")
    found = read_record(tmp_path)
    assert [(seat.entry.key, seat.state, seat.seconds, seat.sentence) for seat in found.seats] == [
        ("done", "done", 1.5, ""),
        ("failed", "failed", None, "Why."),
        ("begun", "cut off", None, ""),
        ("waiting", "waiting", None, ""),
        ("long-ago", "waiting", None, ""),
        ("bare", "done", None, ""),
    ]
    assert (found.command, found.claimed, found.most) == ("bench", False, 3)


def run(tasks: list[Task], out: Path, **asked: Any) -> Failures:
    settings = EngineSettings(**asked)
    return run_tasks(tasks, settings, opened=None, accelerator="cpu", out=out, reporter=QUIET)  # type: ignore[arg-type]


def test_a_fault_is_tried_again_when_asked_and_a_want_always(tmp_path: Path) -> None:
    tried: list[str] = []

    def task(name: str, error: Exception | None, made_from: str = "1", **more: Any) -> Task:
        def work(opened: Opener) -> None:
            tried.append(name)
            if error:
                raise error

        return Task(name, name, tmp_path / name, work, made_from=made_from, **more)

    fault, want, ok = task("a", ValueError("No good.")), task("b", InputError("Full.")), task("c", None, after=("a",))
    tasks = [fault, want, ok, task("d", None, group="g")]
    assert set(run(tasks, tmp_path)) == {"a", "b", "c"}
    assert tried == ["a", "b", "d"]
    tried.clear()
    again = run(tasks, tmp_path)
    assert tried == ["b", "d"]
    assert set(again) == {"a", "b", "c"}
    assert "No good." in again["c"].sentence
    tried.clear()
    assert set(run(tasks, tmp_path, retry_failed=True)) == {"a", "b", "c"}
    assert tried == ["a", "b", "d"]
    tried.clear()
    run([task("a", None, made_from="2")], tmp_path)  # other settings, of which nothing is known
    assert tried == ["a"]
    assert not (tmp_path / "a" / "failure.json").exists()


def failing(cell: PlannedCell, opened: Opener) -> None:
    if cell.method == "lazy":
        raise ValueError("No good.")
    measure(cell, opened)


measure = grids._measure


def test_as_a_user_meets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "x"
    words = ["bench", "--data", "digits", "--methods", "lazy", "--seeds", 2, "--out", out, *QUICK]
    foreseen = json.loads(fscil(*words, "--dry-run", "--json").stdout)
    assert not out.exists()
    assert [task["task"].split(" ")[0] for task in foreseen["tasks"]] == [
        "Training",
        *["prototypes"] * 2,
        *["lazy"] * 2,
    ]
    refused = fscil("bench", "status", out)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    monkeypatch.setattr(grids, "_measure", failing)
    assert fscil(*words).returncode == 1
    said = fscil("bench", "status", out).stdout
    assert "lazy on vit" in said
    assert "ValueError: No good." in said
    assert "3 done, 2 waiting" not in said
    assert "3 done, 1 failed, 1 waiting, of 5 tasks" in said
    shown = json.loads(fscil("bench", "status", out, "--json").stdout)
    states = [task["state"] for task in shown["tasks"]]
    assert states == ["done", "done", "done", "failed", "waiting"]
    assert all(task["seconds"] > 0 for task in shown["tasks"][:3])
    monkeypatch.setattr(grids, "_measure", measure)
    assert fscil(*words, "--resume").returncode == 1  # a fault is left alone
    left = fscil(*words, "--resume", "--dry-run")
    assert left.returncode == 0
    assert "2 cells are done, 2 tasks are left." in left.stdout
    done = fscil(*words, "--retry-failed")
    assert done.returncode == 0, done.stderr
    assert "5 done, of 5 tasks. " in fscil("bench", "status", out).stdout
    assert "4 cells are done, 0 tasks are left." in fscil(*words, "--dry-run").stdout
    assert read_json(out / "grid.json")["most"] == 1


@pytest.mark.parametrize(("error", "code"), [(ValueError("No good."), 1), (InputError("Full."), 2)])
@pytest.mark.parametrize("command", [["bench", "--data", "digits", "--methods", "lazy"], ["tune", "digits"]])
def test_without_a_network_the_exit_code_says_whose_fault_it_is(
    command: list[str], error: Exception, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr("fscil.experiments.runner.train_base", fail)
    done = fscil(*command, "--seeds", 1, "--out", tmp_path / "x", *QUICK)
    assert done.returncode == code
    assert done.stderr.splitlines()[-1].startswith("fscil: ")
    assert str(error) in done.stderr.splitlines()[-1]


def test_what_comes_with_the_package_is_what_was_measured() -> None:
    stored = {(each.dataset, each.work, each.device): each for each in shipped_durations()}
    results = Path(__file__).parents[2] / "results"
    means = sorted(
        read_json(path)["seconds"]["sessions"]
        for path in results.glob("**/fact/shots-*/result.json")
        if read_json(path)["dataset"] == "glyphs" and "rectified" not in str(path.relative_to(results))
    )
    middle = (means[len(means) // 2] + means[~(len(means) // 2)]) / 2
    assert stored["glyphs", "fact", "cpu"].seconds == pytest.approx(middle, abs=0.006)
    assert stored["glyphs", "glyphs_alice", "cpu"].epochs == 24
    assert not any(key[0] == "cifar100" and key[2] == "cpu" and each.epochs for key, each in stored.items())
    assert durations(results, unusual=differing) == shipped_durations()


def test_the_shipped_durations_are_of_what_recipes_say() -> None:
    """A method that was trained longer than its recipe says counts where nothing else was measured."""
    results = Path(__file__).parents[2] / "results"
    longer = "glyphs_as_published/means/yourself"
    seconds = [read_json(path)["seconds"]["sessions"] for path in results.glob("glyphs/yourself/shots-*/result.json")]
    stored = {(each.dataset, each.work, each.device): each.seconds for each in shipped_durations()}
    assert stored["glyphs", "yourself", "cpu"] == pytest.approx(np.median(seconds), abs=0.006)
    (alone,) = [each for each in durations(results / longer, lambda group: True) if not each.epochs]
    assert alone.work == "yourself"
    assert alone.seconds > stored["glyphs", "yourself", "cpu"]

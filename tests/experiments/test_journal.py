"""Numbers of a run: in OUT/log in any case, and where services are asked for, read back with their own readers."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.storage import read_json
from fscil.data import load_benchmark
from fscil.experiments.bench.plan import _key
from fscil.experiments.journal import Journal, accuracies
from fscil.experiments.run import Run
from fscil.training.checkpoint import load_classifier
from fscil.training.loop import train_base

MATRIX = {"matrix": [[90.0], [80.0, 40.0], [70.0, 30.0, 60.0]], "classes": [6, 3, 1], "test_counts": [60, 30, 10]}
STEPS = [(23, {"train/loss": 2.5, "train/lr": 0.1}), (46, {"train/loss": 1.25, "train/lr": 0.0})]


def rows(folder: Path) -> list[tuple[str, int, str, float]]:
    with open(folder / "numbers.csv", newline="", encoding="utf-8") as file:
        return [(row["part"], int(row["step"]), row["name"], float(row["value"])) for row in csv.DictReader(file)]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "numbers.jsonl").read_text(encoding="utf-8").splitlines()]


def test_accuracies_of_a_matrix_worked_out_by_hand() -> None:
    found = accuracies(MATRIX)
    assert [row["acc/base"] for row in found] == [90, 80, 70]
    assert [row["acc/novel"] for row in found] == [None, 40, (3 * 30 + 1 * 60) / 4]
    counted = [90, (60 * 80 + 30 * 40) / 90, (60 * 70 + 30 * 30 + 10 * 60) / 100]
    assert [row["acc/all"] for row in found] == pytest.approx(counted)


def test_both_files_hold_every_number(tmp_path: Path) -> None:
    with Journal(tmp_path / "log").part("base, 1", {}) as record:
        for step, values in STEPS:
            record(step, {**values, "nothing": None})
    assert rows(tmp_path / "log") == [
        ("base, 1", step, name, value) for step, values in STEPS for name, value in values.items()
    ]
    assert lines(tmp_path / "log") == [{"part": "base, 1", "step": step, **values} for step, values in STEPS]


def test_a_part_goes_on_in_another_process(tmp_path: Path) -> None:
    """As with several devices, whose trainers are processes of their own; settings and services must not keep it."""
    with Journal(tmp_path, ("tensorboard",)).part("base", {"a": {"b": 1}}) as record:
        record(*STEPS[0])
        with pickle.loads(pickle.dumps(record)) as there:
            there(*STEPS[1])
    assert [step for _, step, _, _ in rows(tmp_path)] == [23, 23, 46, 46]


def test_a_run_writes_its_epochs_and_its_sessions(tmp_path: Path) -> None:
    quick = ["draws=1", "train.epochs=2", "accelerator=cpu", "methods=prototypes"]
    run = Run.open(configs.load("digits", quick), tmp_path / "out")
    (result,) = run.evaluate()
    found = rows(tmp_path / "out" / "log")

    losses = run.on.network.info["losses"]
    epoch = len(losses) // 2
    wanted = [(epoch, np.mean(losses[:epoch])), (2 * epoch, np.mean(losses[epoch:]))]
    written = [(step, value) for part, step, name, value in found if (part, name) == ("base", "train/loss")]
    assert written == [(step, pytest.approx(value, abs=1e-4)) for step, value in wanted]

    document = read_json(result)
    gacc = [value for part, _, name, value in found if (part, name) == ("prototypes/shots-0", "gacc")]
    assert gacc == document["metrics"]["gacc_grid_per_session"]
    base = [value for _, _, name, value in found if name == "acc/base"]
    assert base == [row[0] for row in document["matrix"]]

    Run.open(configs.load("digits", quick), tmp_path / "out", resume=True).evaluate()
    assert rows(tmp_path / "out" / "log") == found  # nothing was done, nothing is written
    Run.open(configs.load("digits", [*quick, "train.epochs=1"]), tmp_path / "out", force=True).train()
    assert [(part, step) for part, step, name, _ in rows(tmp_path / "out" / "log") if name == "train/loss"] == [
        ("base", epoch)
    ]


def test_a_killed_training_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    """Two stages: steps of the second are counted on from those of the first; the last line of a step counts."""
    config = configs.load("digits", ["train.epochs=2", "train.checkpoint_seconds=0", "second.epochs=1"])
    session = load_benchmark(config.data).session(0)

    def train(name: str, killed_after: int = 0) -> dict[tuple[int, str], float]:
        def stop(done: int, total: int) -> None:
            if done == killed_after:
                raise KeyboardInterrupt

        with Journal(tmp_path / name).part("base", {}) as record:
            try:
                train_base(session, config, tmp_path / name, progress=stop, record=record)
            except KeyboardInterrupt:
                train_base(session, config, tmp_path / name, resume=True, record=record)
        return {(step, what): value for _, step, what, value in rows(tmp_path / name)}

    whole = train("whole")
    steps = sorted({step for step, _ in whole})
    assert steps == [steps[0], 2 * steps[0], 2 * steps[0] + load_classifier(tmp_path / "whole").info["steps"]]
    assert train("cut", killed_after=steps[0] + 3) == pytest.approx(whole, abs=1e-6)


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Journal(tmp_path, ("tensorboard",)).part("yourself/shots-0", {"seed": 0}) as record:
        for session, values in enumerate(accuracies(MATRIX)):
            record(session, values)
    reader = EventAccumulator(str(tmp_path / "tensorboard" / "yourself" / "shots-0")).Reload()
    assert set(reader.Tags()["scalars"]) == {"acc/all", "acc/base", "acc/novel", "gacc"}
    assert [(event.step, event.value) for event in reader.Scalars("acc/base")] == [(0, 90), (1, 80), (2, 70)]
    assert [event.step for event in reader.Scalars("acc/novel")] == [1, 2]


def test_mlflow_reads_what_was_written_and_knows_a_part_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for step, values in STEPS:  # the second time as after a kill
        with Journal(tmp_path, ("mlflow",)).part("base", {"train": {"lr": 0.1}, "methods": ("a", "b")}) as record:
            record(step, values)
    with Journal(tmp_path, ("mlflow",)).part("prototypes/shots-0", {}) as record:
        record(0, {"gacc": 50})
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fscil")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"base", "prototypes/shots-0"}
    history = client.get_metric_history(runs["base"].info.run_id, "train/loss")
    assert [(each.step, each.value) for each in history] == [(23, 2.5), (46, 1.25)]
    assert runs["base"].data.params["train/lr"] == "0.1"
    assert {run.info.status for run in runs.values()} == {"FINISHED"}


def logged_records(file: Path) -> Iterator[bytes]:
    """Of W&B's own files, a log of LevelDB's format: blocks of 32 kB, records in one piece or in several."""
    content, place, held = file.read_bytes(), 7, b""  # after the head of the file
    while place + 7 <= len(content):
        if (left := 2**15 - place % 2**15) < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)  # after a checksum
        held, place = held + content[place + 7 : place + 7 + length], place + 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield held
            held = b""


def test_wandb_writes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    monkeypatch.delenv("WANDB_MODE", raising=False)
    for part in ("base", "prototypes/shots-0"):
        with Journal(tmp_path, ("wandb",)).part(part, {"seed": 0}) as record:
            record(*STEPS[0])
    wandb.teardown()  # its service writes the files
    files = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2  # a run each
    for file in files:
        logged = {}
        for content in logged_records(file):
            record_ = wandb_internal_pb2.Record()
            record_.ParseFromString(content)
            for item in record_.history.item:
                logged["/".join(item.nested_key) or item.key] = item.value_json
        assert math.isclose(json.loads(logged["train/loss"]), 2.5)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_extra_is_named_before_anything_is_done(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *rest: None if n == name else found(n, *rest))
    with pytest.raises(InputError, match=rf"get it with: pip install 'fscil\[{name}\]'\.$"):
        Run.open(configs.load("digits", [f"log={name}"]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_services_are_a_setting_that_makes_no_other_network() -> None:
    plain, logged = (configs.load("digits", [text]) for text in ("log=[]", "log=tensorboard,mlflow"))
    assert logged.log == ("tensorboard", "mlflow")
    assert _key(plain) == _key(logged)
    with pytest.raises(InputError, match="tensorboard"):
        configs.load("digits", ["log=tensorbord"])

"""What is done is decided by what it was made from, and is not done again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fscil.core import config as configs
from fscil.core.progress import Reporter
from fscil.core.storage import read_json, write_json
from fscil.evaluation.identity import data_sha256, weights_sha256
from fscil.experiments import layers, runner
from fscil.experiments.run import Run
from fscil.experiments.runner import NetworkRun
from fscil.methods import Prototypes
from fscil.training.checkpoint import read_tensors, save_tensors

QUICK = ["draws=2", "train.epochs=2", "accelerator=cpu", "options.yourself.base_steps=2"]
QUICK += ["options.yourself.novel_steps=2"]
CONFIG = configs.load("digits", QUICK)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run.open(CONFIG, tmp_path_factory.mktemp("runner") / "digits")
    run.all()
    return run


def test_a_finished_run_does_nothing_again(finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any, **named: Any) -> None:
        raise AssertionError("done again")

    for module, name in ((runner, "run_method"), (runner, "train_base"), (layers, "run_method"), (layers, "_embed")):
        monkeypatch.setattr(module, name, never)
    again = Run.open(CONFIG, finished.out, resume=True)
    assert [path.stat().st_size > 0 for path in again.all()] == [True] * 4
    assert again.analysis()["layers"]


def test_a_result_names_its_network_and_its_data(finished: Run) -> None:
    found = read_json(finished.result_paths()[0])
    assert found["schema"] == 2
    assert found["network"] == {
        "weights_sha256": weights_sha256(finished.on.checkpoint),
        "data_sha256": data_sha256(finished.on.benchmark.draw(0)),
        "trained_on": finished.on.benchmark.fingerprint(),
    }
    assert found["hardware"]["threads"] >= 1


def test_results_of_another_network_are_measured_again(finished: Run, tmp_path: Path) -> None:
    tensors, info = read_tensors(finished.on.checkpoint)
    name = next(key for key in tensors if "backbone" in key and tensors[key].is_floating_point())
    save_tensors(tmp_path / "other.safetensors", {**tensors, name: tensors[name] + 0.1}, info)
    runs = [Run.open(CONFIG, tmp_path / "out", resume=True, checkpoint=path) for path in
            (finished.on.checkpoint, tmp_path / "other.safetensors")]  # fmt: skip
    found = []
    for run in runs:
        run.evaluate()
        found.append(read_json(run.result_paths()[0]))
    assert found[0]["inputs"] != found[1]["inputs"]
    assert found[0]["network"] != found[1]["network"]


def test_inputs_tell_apart_whatever_makes_another_measurement(finished: Run, tmp_path: Path) -> None:
    on = finished.on

    def inputs(network: NetworkRun = on, draw: int = 0, **options: Any) -> str:
        return network.cell(lambda: Prototypes(**options), draw, tmp_path / "x.json").inputs

    seeded = configs.load("digits", [*QUICK, "seed=1"])
    shots = configs.load("digits", [*QUICK, "data.shot=2"])
    others = [NetworkRun(c, tmp_path, Reporter(quiet=True), checkpoint=on.checkpoint) for c in (seeded, shots)]
    found = [inputs(), inputs(draw=1), inputs(block=2), *map(inputs, others)]
    assert len(set(found)) == len(found)
    elsewhere = NetworkRun(CONFIG, tmp_path, Reporter(quiet=True), checkpoint=on.checkpoint.parent)
    assert inputs(elsewhere) == inputs()


def test_a_damaged_or_older_file_is_not_done(finished: Run, tmp_path: Path) -> None:
    cell = finished.on.cell(Prototypes, 0, tmp_path / "result.json")
    assert not cell.done
    finished.on.fill([cell])
    assert cell.done
    document = read_json(cell.path)
    del document["inputs"]  # as written by the version before
    write_json(cell.path, document)
    assert not cell.done
    cell.path.write_text('{"inputs": "half a f')
    assert not cell.done

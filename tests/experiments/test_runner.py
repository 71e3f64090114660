"""What is done is decided by what it was made from, and is not done again."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from commands import Process

from fscil.cli.options import load_config
from fscil.core import config as configs
from fscil.core.config import to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import describe
from fscil.core.progress import Reporter
from fscil.core.storage import read_json, write_json
from fscil.evaluation import features
from fscil.evaluation.identity import data_sha256, weights_sha256
from fscil.experiments import layers, runner
from fscil.experiments.run import Run
from fscil.experiments.runner import NetworkRun
from fscil.methods import Prototypes
from fscil.training.checkpoint import read_tensors, same_training, save_tensors

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

    for module, name in ((runner, "run_method"), (runner, "train_base"), (layers, "run_method"), (layers, "embedded")):
        monkeypatch.setattr(module, name, never)
    again = Run.open(CONFIG, finished.out, resume=True)
    assert [path.stat().st_size > 0 for path in again.all()] == [True] * 4
    assert again.analysis()["layers"]
    assert len(again.pictures()["samples"]) == 10


def test_images_pass_through_the_network_once_for_all_methods(
    finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, extract = [], features.extract

    def counted(backbone: Any, images: Any, blocks: Any) -> Any:
        passes.append(len(images))
        return extract(backbone, images, blocks)

    monkeypatch.setattr(features, "extract", counted)
    assert CONFIG.methods == ("prototypes", "yourself")  # the first wants no layers, the second does
    Run.open(CONFIG, tmp_path / "out", checkpoint=finished.on.checkpoint).evaluate()
    novel = finished.on.benchmark.novel_sessions
    assert len(passes) == (novel + 1) + 1 + novel * CONFIG.draws  # exams, the base session, the shots


def test_a_result_names_its_network_and_its_data(finished: Run) -> None:
    found = read_json(finished.result_paths()[0])
    assert found["schema"] == 2
    assert found["network"] == {
        "weights_sha256": weights_sha256(finished.on.checkpoint),
        "data_sha256": data_sha256(finished.on.benchmark.draw(0)),
        "trained_on": finished.on.benchmark.fingerprint(),
    }
    assert found["hardware"]["threads"] >= 1


def test_results_of_another_network_are_measured_again(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors, info = read_tensors(finished.on.checkpoint)
    name = next(key for key in tensors if "backbone" in key and tensors[key].is_floating_point())
    save_tensors(tmp_path / "other.safetensors", {**tensors, name: tensors[name] + 0.1}, info)
    found = []
    for path, said in ((finished.on.checkpoint, False), (tmp_path / "other.safetensors", True)):
        run = Run.open(CONFIG, tmp_path / "out", resume=True, checkpoint=path, reporter=Reporter())
        run.evaluate()
        found.append(read_json(run.result_paths()[0]))
        assert ("was made from something else" in capsys.readouterr().err) is said
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


def test_cells_that_were_measured_otherwise_are_named_once(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    on = NetworkRun(CONFIG, tmp_path, Reporter(), checkpoint=finished.on.checkpoint)
    cells = [on.cell(Prototypes, 0, path) for path in paths]
    on.fill(cells)
    on.fill(cells)
    assert "otherwise" not in capsys.readouterr().err
    for path in paths:
        document = read_json(path)
        document["hardware"] |= {"threads": 97, "torch": "0.4"}
        write_json(path, document)
    on.fill(cells)
    said = [line for line in capsys.readouterr().err.splitlines() if "otherwise" in line]
    threads, torch_now = describe(on.device)["threads"], describe(on.device)["torch"]
    assert len(said) == 1
    assert f"torch 0.4, now {torch_now}, threads 97, now {threads}" in said[0]
    older = read_json(paths[0])
    del older["hardware"]["fscil"], older["hardware"]["deterministic"]  # as written by the version before
    older["hardware"] |= {"threads": threads, "torch": torch_now}
    write_json(paths[0], older)
    on.fill(cells[:1])
    assert "otherwise" not in capsys.readouterr().err


def test_a_folder_is_deterministic_or_not(finished: Run, tmp_path: Path) -> None:
    stored = read_json(finished.out / "config.json")
    assert stored.pop("deterministic") is False
    assert stored["train"].pop("milestones") == []
    write_json(finished.out / "config.json", stored)  # as written by the version before
    wanted = dataclasses.replace(CONFIG, deterministic=True)
    with pytest.raises(InputError, match="another 'deterministic'"):
        Run.open(wanted, finished.out, resume=True)
    Run.open(CONFIG, finished.out, resume=True)
    assert not same_training({"config": to_dict(wanted), "data": ""}, {"config": to_dict(CONFIG), "data": ""})


def command(arguments: str, out: Path, log: Path, threads: int = 1) -> Process:
    words = [word for override in QUICK for word in ("--set", override)]
    return Process(*arguments.split(), "--out", out, *words, log=log, threads=threads)


def test_deterministic_runs_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    runs = [command("run digits --deterministic", tmp_path / str(n), tmp_path / f"log{n}", threads=n) for n in (1, 2)]
    for run in runs:
        done = run.wait()
        assert done.returncode == 0, done.stderr
    assert weights_sha256(tmp_path / "1" / "base") == weights_sha256(tmp_path / "2" / "base")
    for path in (tmp_path / "1").rglob("result.json"):
        one, two = read_json(path), read_json(tmp_path / "2" / path.relative_to(tmp_path / "1"))
        assert one["hardware"]["deterministic"] is two["hardware"]["deterministic"] is True
        assert one["hardware"]["threads"] == two["hardware"]["threads"] == 1
        for key in ("inputs", "matrix", "variants", "metrics"):
            assert one[key] == two[key]


@pytest.mark.parametrize("name", ["train digits --resume", "bench --data digits --methods prototypes --resume"])
def test_of_two_commands_at_once_in_one_folder_one_is_refused(tmp_path: Path, name: str) -> None:
    for attempt in range(20):  # on a busy machine one may be through before the other has begun
        out = tmp_path / str(attempt)
        two = [command(name, out, tmp_path / f"{attempt}{which}") for which in "ab"]
        done = [process.wait() for process in two]
        said = [each.stderr.splitlines() for each in done]
        codes = sorted(each.returncode for each in done)
        assert codes in ([0, 0], [0, 2]), said
        if codes == [0, 2]:
            break
        assert any("done before" in line for lines in said for line in lines), said
    else:
        pytest.fail("No two commands were at work at once.")
    refused = next(each.stderr.splitlines() for each in done if each.returncode)
    assert refused == [f"fscil: Another process is writing to {out}; wait until it is done, or choose another --out."]


def test_a_given_network_looks_as_the_settings_say_and_is_not_misnamed(finished: Run, tmp_path: Path) -> None:
    def opened(*overrides: str) -> NetworkRun:
        config = configs.load("digits", [*QUICK, *overrides])
        return NetworkRun(config, tmp_path, Reporter(quiet=True), checkpoint=finished.on.checkpoint)

    plain, mirrored = opened(), opened("backbone.test_mirror=true", "backbone.test_zoom=1.25")
    assert mirrored.network.backbone.test_mirror
    assert mirrored.network.backbone.test_zoom == 1.25
    assert mirrored.inputs(0) != plain.inputs(0)  # results of one look are not taken for those of another
    images = plain.benchmark.exam(0).images
    assert not mirrored.cache.get(images).final.allclose(plain.cache.get(images).final, atol=1e-3)
    with pytest.raises(InputError, match=r"has backbone\.depth=4, and the settings say 5, which would change nothing"):
        _ = opened("backbone.depth=5").network


def test_a_setting_of_the_training_beside_a_trained_network_is_refused(finished: Run) -> None:
    with pytest.raises(InputError, match=r"was trained with train\.epochs=2, and 5 would change nothing"):
        load_config("digits", ["train.epochs=5"], finished.on.checkpoint)
    assert load_config("digits", ["train.epochs=2"], finished.on.checkpoint).train.epochs == 2

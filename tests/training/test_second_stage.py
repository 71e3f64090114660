"""Base training in two stages: the second goes on from the first, and a kill in either changes nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from data_samples import refusal
from small_networks import image_session, trainer
from typer.testing import CliRunner

from fscil.cli.main import app
from fscil.core import config as configs
from fscil.core.config import Config, TrainConfig, to_dict
from fscil.core.hardware import make_fabric
from fscil.experiments.bench import plan as plans
from fscil.training.checkpoint import load_classifier, read_tensors, same_training
from fscil.training.loop import train_base
from fscil.training.trainer import Trainer

SECOND = ("second.epochs=2", "second.batch_size=32", "second.objective=sppr", "second.objective_options.way=1")


def staged(*overrides: str) -> Config:
    return trainer("cross_entropy", "train.checkpoint_seconds=0", *SECOND, *overrides).config


def weights(path: Path) -> dict[str, torch.Tensor]:
    return read_tensors(path)[0]


def equal(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_a_recipe_may_have_a_second_stage(tmp_path: Path) -> None:
    recipe = tmp_path / "two.toml"
    recipe.write_text('extends = "digits"\n[second]\nlr = 0.01\n[second.augment]\nflip = 0.5\n')
    second = configs.load(str(recipe)).second
    assert second == dataclasses.replace(TrainConfig(), lr=0.01, augment=configs.AugmentConfig(flip=0.5))
    assert configs.load("digits").second is None
    assert configs.build(Config, to_dict(configs.load("digits"))).second is None
    refusal(lambda: configs.load(str(recipe), ["second.rate=1"]), "second.rate")
    refusal(lambda: configs.load(str(recipe), ["second.lr=-1"]), "second.lr", "at least 0")
    refusal(lambda: configs.load("digits", ["second=3"]), "'second' is a group of keys")


def test_the_first_stage_is_a_training_of_its_own(tmp_path: Path) -> None:
    config = staged()
    train_base(image_session(), config, tmp_path / "two")
    alone = train_base(image_session(), dataclasses.replace(config, second=None), tmp_path / "one")
    assert equal(weights(tmp_path / "two" / "first.safetensors"), weights(tmp_path / "one" / "backbone.safetensors"))
    assert not (tmp_path / "one" / "first.safetensors").exists()
    assert same_training(load_classifier(tmp_path / "two" / "first.safetensors").info, alone.info)
    assert not same_training(load_classifier(tmp_path / "two").info, alone.info)


def test_the_second_stage_goes_on_from_the_first(tmp_path: Path) -> None:
    config = staged()
    found = train_base(image_session(), config, tmp_path)
    assert any(name.startswith("refinement") for name in found.extras)
    twin = Trainer(make_fabric(config), image_session(), config, start=load_classifier(tmp_path / "first.safetensors"))
    assert (twin.total, twin.train.objective) == (4, "sppr")
    before = {name: value.clone() for name, value in twin.plain.classifier.state_dict().items()}
    assert equal(before, weights(tmp_path / "first.safetensors"))  # which has no objective of its own
    losses = [float(twin.step(step)) for step in range(twin.total)]
    assert losses == pytest.approx(found.info["losses"], abs=1e-5)
    assert not torch.equal(before["head.weight"], found.classifier.head.weight)
    plain = trainer("cross_entropy")
    assert not torch.equal(twin.batches.rows(0)[:16], plain.batches.rows(0))  # other batches than the first stage had


@pytest.mark.parametrize(("head", "taken"), [("cosine", True), ("linear", True), ("etf", False)])
def test_a_head_goes_on_where_its_shape_is_the_same(tmp_path: Path, head: str, taken: bool) -> None:
    found = train_base(image_session(), staged("second.epochs=0", f"second.head={head}"), tmp_path)
    first, last = weights(tmp_path / "first.safetensors"), found.classifier.state_dict()
    assert all(torch.equal(last[name], value) for name, value in first.items() if name.startswith("backbone."))
    assert (last["head.weight"].shape == first["head.weight"].shape) == taken
    assert not taken or torch.equal(last["head.weight"], first["head.weight"])
    assert (found.class_weights is not None) == taken


def test_an_objective_goes_on_with_what_it_has_alike(tmp_path: Path) -> None:
    wide = ("train.objective=wide_cross_entropy", "train.objective_options.width=8", "second.epochs=0")
    for width, taken in ((8, True), (6, False)):
        options = f"second.objective_options={{width={width}}}"
        folder = tmp_path / str(width)
        found = train_base(image_session(), staged(*wide, "second.objective=c-fscil", options), folder)
        first = weights(folder / "first.safetensors")
        assert first["objective.classes.weight"].shape == (4, 8)
        assert set(found.extras) == {"embedding.weight", "embedding.bias"}
        assert torch.equal(found.extras["embedding.weight"], first["objective.embedding.weight"][:width]) == taken


@pytest.mark.parametrize("stop", [5, 16, 18])
def test_a_kill_in_either_stage_leaves_the_same_weights(tmp_path: Path, stop: int) -> None:
    config = staged("backbone.drop_path=0.2", "second.checkpoint_seconds=0")
    reports: list[tuple[int, int]] = []
    train_base(image_session(), config, tmp_path / "whole", progress=lambda done, total: reports.append((done, total)))
    assert reports == [(done, 20) for done in range(1, 21)]  # 4 epochs of 4 batches, 2 of 2

    class CutError(Exception):
        pass

    def cut(done: int, total: int) -> None:
        if done == stop:
            raise CutError

    with pytest.raises(CutError):
        train_base(image_session(), config, tmp_path / "cut", progress=cut)
    seconds = read_tensors(tmp_path / "cut" / "state.safetensors")[1]["seconds"] if stop != 16 else 0
    resumed: list[int] = []
    found = train_base(
        image_session(), config, tmp_path / "cut", resume=True, progress=lambda done, total: resumed.append(done)
    )
    assert resumed[0] == {5: 6, 16: 16, 18: 19}[stop]  # at 16 the last update was done and not yet stored
    assert found.info["seconds"] >= seconds
    assert not (tmp_path / "cut" / "state.safetensors").exists()
    for name in ("first.safetensors", "backbone.safetensors"):
        assert equal(weights(tmp_path / "whole" / name), weights(tmp_path / "cut" / name))


def test_a_state_that_the_first_stage_left_is_not_the_seconds(tmp_path: Path) -> None:
    """A kill after the first network was written and before its state was removed."""
    config = staged("second.checkpoint_seconds=0", "second.objective=cross_entropy", "second.objective_options={}")
    whole = train_base(image_session(), config, tmp_path / "whole").info["losses"]

    class CutError(Exception):
        pass

    def cut(done: int, total: int) -> None:
        if done == 15:
            raise CutError

    with pytest.raises(CutError):
        train_base(image_session(), config, tmp_path / "cut", progress=cut)
    shutil.copy(tmp_path / "whole" / "first.safetensors", tmp_path / "cut")
    assert (tmp_path / "cut" / "state.safetensors").exists()
    assert train_base(image_session(), config, tmp_path / "cut", resume=True).info["losses"] == whole


def test_the_cost_is_that_of_both_stages(tmp_path: Path) -> None:
    found = train_base(image_session(), staged("second.epochs=1"), tmp_path).info
    first = load_classifier(tmp_path / "first.safetensors").info
    assert found["seconds"] > first["seconds"] > 0
    assert found["peak_memory_mb"] >= first["peak_memory_mb"]


def test_the_second_stage_is_part_of_what_makes_a_network() -> None:
    config, plain = staged(), staged()
    plain = dataclasses.replace(plain, second=None)
    assert config.second is not None
    for change in ({"lr": 0.5}, {"checkpoint_seconds": 5.0}):
        other = dataclasses.replace(config, second=dataclasses.replace(config.second, **change))
        same = "lr" not in change
        documents = [{"config": to_dict(each), "data": ""} for each in (config, other, plain)]
        assert same_training(documents[0], documents[1]) == same
        assert not same_training(documents[0], documents[2])
        assert (plans._key(config) == plans._key(other)) == same
    assert plans._key(config) != plans._key(plain)
    older = to_dict(plain)
    del older["second"]
    assert same_training({"config": older, "data": ""}, {"config": to_dict(plain), "data": ""})


def test_one_command_runs_both_stages(tmp_path: Path) -> None:
    def command(*words: str) -> str:
        small = ("train.epochs=1", "second.epochs=1", "second.lr=1e-3", "backbone.depth=3", "methods=prototypes")
        settings = [word for text in small for word in ("--set", text)]
        done = CliRunner().invoke(app, [*words, "--seeds", "1", "--set", "accelerator=cpu", *settings])
        assert done.exit_code == 0, done.output
        return done.output

    out = tmp_path / "out"
    command("run", "digits", "--out", str(out), "--json")
    result = json.loads((out / "prototypes" / "shots-0" / "result.json").read_text())
    assert result["config"]["second"]["lr"] == 1e-3
    trained = load_classifier(out / "base")
    assert result["seconds"]["base"] == trained.info["seconds"]
    assert (out / "base" / "first.safetensors").exists()
    assert "done before" in command("run", "digits", "--out", str(out), "--resume")
    given = ["eval", "digits", "--out", str(tmp_path / "given"), "--checkpoint", str(out / "base"), "--seeds", "1"]
    refused = CliRunner().invoke(app, [*given, "--set", "second.lr=0.5", "--set", "train.epochs=1"])
    assert "was trained with second.epochs=1, and 40 would change nothing" in str(refused.exception)
    command("tune", "digits", "--method", "prototypes", "--out", str(tmp_path / "tuned"))
    assert (tmp_path / "tuned" / "base" / "first.safetensors").exists()

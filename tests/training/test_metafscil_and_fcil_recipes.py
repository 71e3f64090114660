"""What the recipes of MetaFSCIL and FCIL train, with the numbers written out; and that they run through in small."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from data_samples import refusal
from tiny_benchmark import CPU, tiny_benchmark

from fscil.core import config as configs
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.methods import make
from fscil.objectives.metafscil import MetaFSCILObjective
from fscil.training.loop import train_base
from fscil.training.trainer import Trainer

# A network of 8 pixels, one epoch, one sequence of 4 known classes and 2 sessions.
TINY = [
    "accelerator=cpu", "backbone.image_size=8", "train.epochs=1", "train.batch_size=16", "second.epochs=1",
    "second.epoch_steps=1", "second.batch_size=16",
    "second.objective_options={known=4, sessions=2, way=2, shot=3, queries=2}",
]  # fmt: skip


def session(per_class: int = 1) -> Session:
    """With so few images that an epoch is one step: step and epoch are then the same number."""
    images = torch.randint(0, 256, (60 * per_class, 32, 32, 3), dtype=torch.uint8)
    return Session(0, range(60), images, torch.arange(60 * per_class) % 60)


def test_the_first_stage_of_metafscil() -> None:
    """100 epochs of SGD with Nesterov's momentum 0.9, batches of 128, from 0.1 tenfold down after epochs 40 and 70."""
    config = dataclasses.replace(configs.load("cifar100_metafscil", ["accelerator=cpu"]), second=None)
    run = Trainer(make_fabric(config), session(), config)
    rates = []
    for step in range(run.total):
        run._set_pace(step)
        (one,) = {group["lr"] for group in run.optimizer.param_groups}
        rates.append(one)
    assert rates == pytest.approx([0.1] * 40 + [0.01] * 30 + [0.001] * 30)
    for group in run.optimizer.param_groups:
        assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, True, 5e-4)
    assert (run.train.batch_size, run.average) == (128, None)


@pytest.mark.parametrize(("recipe", "sequences"), [("cifar100_metafscil", 200), ("glyphs_metafscil", 30)])
def test_meta_training(recipe: str, sequences: int) -> None:
    config = configs.load(recipe, ["accelerator=cpu"])
    assert config.second is not None
    alone = dataclasses.replace(config, train=config.second, second=None)
    run = Trainer(make_fabric(alone), session(10), alone)
    assert run.total == sequences
    part = run.plain.objective
    assert isinstance(part, MetaFSCILObjective)
    o = part.options
    assert (o.known, o.sessions, o.way, o.shot) == (20, 8, 5, 5)
    assert (o.steps, o.lr, o.warmup_steps, o.warmup_lr) == (5, 0.001, 20, 0.1)
    assert {(g["momentum"], g["weight_decay"]) for g in run.optimizer.param_groups} == {(0, 0)}
    assert not run.plain.classifier.training
    assert (run.average, run.train.compile, run.train.graph) == (None, "off", "off")
    # The branch is as large as the network, all that is made of the two far smaller.
    assert part.modulation is not None
    network = sum(p.numel() for p in run.plain.classifier.backbone.parameters())
    assert sum(p.numel() for p in part.modulation.branch.parameters()) == network
    assert sum(p.numel() for p in part.modulation.parameters()) < 1.1 * network


def test_fcils_base_training_is_cecs_first_stage_and_on_glyphs_that_of_the_recipe() -> None:
    ours, theirs = configs.load("cifar100_fcil"), configs.load("cifar100_cec")
    assert (ours.train, ours.backbone, ours.second) == (theirs.train, theirs.backbone, None)
    assert configs.load("glyphs_fcil").train == configs.load("glyphs").train
    assert configs.load("glyphs_metafscil").train == configs.load("glyphs").train


@pytest.mark.parametrize("name", ["metafscil", "fcil"])
def test_the_recipes_for_cifar100_run_through_in_small(name: str, tmp_path: Path) -> None:
    """The whole way: base training, checkpoint, what it learned besides, sessions, scores."""
    small = TINY if name == "metafscil" else TINY[:4]
    config, benchmark = configs.load(f"cifar100_{name}", small), tiny_benchmark()
    network = train_base(benchmark.session(0), config, tmp_path)
    assert any(key.startswith("modulation.") for key in network.extras) == (name == "metafscil")
    quick = {"critic_steps": 3, "steps": 3} if name == "fcil" else {}
    method = make(name, {**config.options.get(name, {}), **quick})
    cache = FeatureCache(None, network.backbone)
    outcome = run_method(method, benchmark, cache, network=network, device=CPU)
    assert len(outcome.matrix.to_lists()) == benchmark.novel_sessions + 1
    if name == "metafscil":
        assert method.state_dict()["modulation_"].keys() == {
            key.removeprefix("modulation.") for key in network.extras if key.startswith("modulation.")
        }


def test_sequences_of_more_classes_than_there_are_are_refused(tmp_path: Path) -> None:
    config = configs.load("cifar100_metafscil", [*TINY[:-1], "train.epochs=0"])
    refusal(
        lambda: train_base(tiny_benchmark().session(0), config, tmp_path),
        "episodes of 60 classes",
        "train.objective_options",
    )

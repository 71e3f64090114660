"""The second stages of CEC and LIMIT in the training loop: pace, what moves, kills, and what they leave."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import pytest
import torch

from fscil.core import config as configs
from fscil.core.config import Config
from fscil.core.hardware import make_fabric
from fscil.data.session import Session, View
from fscil.methods import make
from fscil.methods.attended import AttendedPrototypes
from fscil.training.checkpoint import Checkpoint, load_classifier, read_tensors
from fscil.training.loop import train_base
from fscil.training.trainer import Trainer

CLASSES, SIZE = 20, 8
EXPECTED_PACE = {  # epochs, steps of one, rates of network and objective, what torch's scheduler does with them
    "cec": (100, 50, 2e-3, 2e-4, lambda made: torch.optim.lr_scheduler.StepLR(made, 20, 0.5)),
    "limit": (20, 3, 2e-4, 2e-4, lambda made: torch.optim.lr_scheduler.MultiStepLR(made, [2, 4, 6], 0.3)),
}


@cache
def session() -> Session:
    """400 images of 20 classes, which differ in colour and in where they are bright."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % CLASSES
    images = torch.randint(0, 90, (400, SIZE, SIZE, 3), generator=generator, dtype=torch.uint8)
    for row, label in enumerate(labels.tolist()):
        images[row, label % 5 : label % 5 + 3, :, label // 5 % 3] += 80
        images[row, :, label // 4 : label // 4 + 2] += 70
    return Session(0, range(CLASSES), images, labels)


def recipe(name: str, *overrides: str) -> Config:
    small = ["backbone.image_size=8", "accelerator=cpu", "train.batch_size=128", "train.milestones=[]"]
    return configs.load(f"cifar100_{name}", [*small, *overrides])


def short(name: str, *overrides: str) -> Config:
    fewer = "{way=5, query=4}" if name == "cec" else "{tasks=2}"
    settings = ["train.epochs=2", "second.epochs=3", "second.epoch_steps=3", "second.lr=0.01", "second.milestones=[2]"]
    return recipe(name, *settings, f"second.objective_options={fewer}", *overrides)


def after_first(name: str, *overrides: str, folder: Path) -> tuple[Trainer, Checkpoint]:
    config = recipe(name, "train.epochs=1", *overrides)
    train_base(session(), dataclasses.replace(config, second=None), folder)
    first = load_classifier(folder)
    return Trainer(make_fabric(config), session(), config, start=first), first


@pytest.mark.parametrize("name", EXPECTED_PACE)
def test_optimizer_and_pace_are_those_of_the_released_code(name: str, tmp_path: Path) -> None:
    epochs, steps, of_network, of_objective, schedule = EXPECTED_PACE[name]
    training, _ = after_first(name, folder=tmp_path)
    assert (training.total, training.epoch_steps) == (epochs * steps, steps)
    groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": rate} for rate in (of_network, of_objective)]
    released = torch.optim.SGD(groups, momentum=0.9, nesterov=True, weight_decay=5e-4)
    scheduler = schedule(released)
    own = {id(parameter) for parameter in training.plain.objective.parameters()}
    assert own
    for epoch in range(epochs):
        for step in (epoch * steps, epoch * steps + steps - 1):
            training._set_pace(step)
            for group in training.optimizer.param_groups:
                for parameter in group["params"]:
                    assert group["lr"] == pytest.approx(released.param_groups[id(parameter) in own]["lr"], rel=1e-6)
        released.step()
        scheduler.step()
    for group in training.optimizer.param_groups:
        assert (group["weight_decay"], group["momentum"], group["nesterov"]) == (5e-4, 0.9, True)
    trained = sum(len(group["params"]) for group in training.optimizer.param_groups)
    assert trained == len(list(training.plain.parameters()))  # batch-norm, biases and the layer included
    assert training.average is None
    assert not training.train.clip


@pytest.mark.parametrize("name", EXPECTED_PACE)
def test_network_and_layer_move_and_statistics_and_head_stay(name: str, tmp_path: Path) -> None:
    training, first = after_first(name, folder=tmp_path)
    before = {key: value.clone() for key, value in training.plain.state_dict().items()}
    for step in range(3):
        assert torch.isfinite(training.step(step))
    moved = {key for key, value in training.plain.state_dict().items() if not torch.equal(before[key], value)}
    statistics = {key for key in before if "running" in key or "num_batches" in key}
    network = {key for key, _ in training.plain.classifier.backbone.named_parameters(prefix="classifier.backbone")}
    own = {f"objective.{key}" for key, _ in training.plain.objective.named_parameters()}
    assert statistics
    assert moved == network | own
    assert torch.equal(training.plain.classifier.head.weight, first.classifier.head.weight)


@pytest.mark.parametrize("name", EXPECTED_PACE)
def test_killed_in_the_second_stage_it_comes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    config = short(name, "train.checkpoint_seconds=0", "second.checkpoint_seconds=0")
    train_base(session(), config, tmp_path / "whole")

    class KilledError(Exception):
        pass

    def kill(done: int, total: int) -> None:
        if done == total - 4:  # in the middle of the second epoch, after images have stopped being augmented
            raise KilledError

    with pytest.raises(KilledError):
        train_base(session(), config, tmp_path / "killed", progress=kill)
    assert (tmp_path / "killed" / "first.safetensors").exists()
    train_base(session(), config, tmp_path / "killed", resume=True)
    whole, killed = (read_tensors(tmp_path / each / "backbone.safetensors")[0] for each in ("whole", "killed"))
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[key], killed[key]) for key in whole)


def as_base_session(found: Checkpoint) -> Session:
    images = session().images
    assert images is not None
    with torch.no_grad():
        return dataclasses.replace(session(), view=View(found.backbone(images)), extras=found.extras)


@pytest.mark.parametrize("name", EXPECTED_PACE)
def test_what_the_second_stage_learned_is_what_the_method_takes(name: str, tmp_path: Path) -> None:
    found = train_base(session(), short(name), tmp_path)
    method = make(name, {"steps": 10**9})  # which it would never come to the end of
    assert isinstance(method, AttendedPrototypes)
    method.start(seed=0, depth=3, device=torch.device("cpu"))
    base = as_base_session(found)
    method.fit_base(base)
    assert method.layer_only_ is False
    assert torch.equal(method.attention_.key, found.extras[f"{method.layer}.key"])
    assert base.view is not None
    assert method.scores(base.view[torch.arange(7)]).shape == (7, CLASSES)
    assert torch.allclose(method.prototypes_[3], base.view.final[base.labels == 3].mean(0), atol=1e-5)


@pytest.mark.parametrize("name", EXPECTED_PACE)
def test_it_learns(name: str, tmp_path: Path) -> None:
    longer = ["train.epochs=15", "train.lr=0.05", "second.epochs=12", "second.lr=3e-3", "second.objective_rate=1"]
    found = train_base(session(), short(name, *longer), tmp_path)
    losses = found.info["losses"]
    assert sum(losses[-6:]) < 0.5 * sum(losses[:6])

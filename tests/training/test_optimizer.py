"""The optimizer of base training against torch's own, set up by hand."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from small_networks import batch, image_session, trainer
from torch import nn

from fscil.core.config import build
from fscil.training.checkpoint import load_classifier, same_training
from fscil.training.loop import train_base
from fscil.training.trainer import Trainer

NORMED = ("backbone.kind=resnet20", "train.optimizer=sgd", "train.warmup_epochs=0", "train.clip=0")


def rates(training: Trainer) -> list[list[float]]:
    """Of every step, by group."""
    found = []
    for step in range(training.total):
        training._set_pace(step)
        found.append([group["lr"] for group in training.optimizer.param_groups])
    return found


def backwards(model: nn.Module) -> None:
    """Gradients that any copy of the model would get too."""
    model.zero_grad()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def differences(training: Trainer, twin: nn.Module, other: torch.optim.Optimizer, steps: int = 3) -> float:
    """How far the weights are from the twin's, after the same gradients."""
    for step in range(steps):
        training._set_pace(step)
        for model, optimizer in ((training.plain, training.optimizer), (twin, other)):
            backwards(model)
            optimizer.step()
    pairs = zip(training.plain.parameters(), twin.parameters(), strict=True)
    return max(float((one - two).detach().abs().max()) for one, two in pairs)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
@pytest.mark.parametrize("decay", ["matrices", "all"])
def test_decay_on_everything_is_torchs_default(kind: str, decay: str) -> None:
    training = trainer(
        "fact", *NORMED, f"train.optimizer={kind}", f"train.decay={decay}", "train.weight_decay=0.5", "train.lr=0.1",
        "train.nesterov=false", "train.milestones=[99]", "train.epochs=100",
    )  # fmt: skip
    twin = copy.deepcopy(training.plain)
    other: torch.optim.Optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=0.5)
    if kind == "adamw":
        other = torch.optim.AdamW(twin.parameters(), lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    assert (differences(training, twin, other) < 1e-6) == (decay == "all")


@pytest.mark.parametrize("nesterov", ["true", "false"])
def test_nesterovs_step_is_a_choice(nesterov: str) -> None:
    training = trainer(
        "cross_entropy", *NORMED, "train.weight_decay=0", f"train.nesterov={nesterov}", "train.milestones=[99]",
        "train.lr=0.1",
    )  # fmt: skip
    twin = copy.deepcopy(training.plain)
    other = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, nesterov=nesterov == "true")
    assert differences(training, twin, other) < 1e-6


def test_milestones_are_those_of_multisteplr() -> None:
    training = trainer(
        "cross_entropy", "train.epochs=10", "train.milestones=[3, 5, 9]", "train.gamma=0.25", "train.lr=0.1",
        "train.warmup_epochs=0",
    )  # fmt: skip
    per_epoch = training.batches.steps_per_epoch
    assert per_epoch > 1
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5, 9], 0.25)
    expected = []
    for _ in range(10):
        expected += [optimizer.param_groups[0]["lr"]] * per_epoch
        optimizer.step()
        schedule.step()
    found = rates(training)
    assert [step[0] for step in found] == pytest.approx(expected)
    assert {len(set(step)) for step in found} == {1}


def test_a_warm_up_comes_before_the_milestones() -> None:
    training = trainer("cross_entropy", "train.epochs=4", "train.milestones=[2.5]", "train.warmup_epochs=1")
    per_epoch, lr = training.batches.steps_per_epoch, training.config.train.lr
    found = [step[0] for step in rates(training)]
    assert found[:per_epoch] == pytest.approx([lr * (step + 1) / per_epoch for step in range(per_epoch)])
    assert found[per_epoch : 5 * per_epoch // 2] == pytest.approx([lr] * (3 * per_epoch // 2))
    assert found[5 * per_epoch // 2 :] == pytest.approx([lr / 10] * (3 * per_epoch // 2))


def test_the_objectives_parameters_have_a_rate_of_their_own() -> None:
    training = trainer(
        "sppr", *NORMED, "train.objective_rate=0.25", "train.decay=all", "train.milestones=[99]", "train.lr=0.1",
        "train.weight_decay=0.5", "train.nesterov=false", "train.objective_options.way=1",
    )  # fmt: skip
    twin = copy.deepcopy(training.plain)
    groups = [{"params": twin.classifier.parameters()}, {"params": twin.objective.parameters(), "lr": 0.025}]
    other = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.5)
    assert differences(training, twin, other) < 1e-6


def test_a_linear_head_is_a_product_and_its_rows_are_class_weights(tmp_path: Path) -> None:
    training = trainer("cross_entropy", "train.head=linear")
    found = train_base(image_session(), training.config, tmp_path)
    images = batch().images
    expected = found.backbone(images) @ found.classifier.head.weight.T
    assert torch.allclose(found.classifier(images), expected, atol=1e-6)
    assert found.class_weights is not None
    assert torch.equal(found.class_weights, found.classifier.head.weight)
    assert found.info["losses"][0] > found.info["losses"][-1]
    assert not any("bias" in name for name, _ in found.classifier.head.named_parameters())


def test_checkpoints_from_before_the_new_keys_are_the_same_training(tmp_path: Path) -> None:
    training = trainer("cross_entropy", "train.epochs=1")
    info = train_base(image_session(), training.config, tmp_path).info
    before = copy.deepcopy(info)
    for key in ("decay", "nesterov", "milestones", "gamma", "objective_rate"):
        del before["config"]["train"][key]
    del before["config"]["train"]["augment"]["border"]
    assert same_training(before, info)
    assert build(type(training.config), before["config"]) == training.config
    assert load_classifier(tmp_path).info["config"]["train"]["milestones"] == []

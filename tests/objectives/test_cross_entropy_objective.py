"""Plain cross-entropy: its whole loss against loops, its first class weights, and the recipe that trains with it."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from small_networks import CLASSES, batch, classifier, objective
from torch import Tensor

from fscil.core import config as configs
from fscil.core.config import TrainConfig
from fscil.objectives import Setting, build_objective
from fscil.training.optimizer import learning_rate


def test_the_whole_loss_and_its_gradients_against_loops() -> None:
    network, view = classifier(), batch(6)
    view = dataclasses.replace(view, others=view.labels.roll(1), share=torch.linspace(0, 1, 6))
    part = build_objective(TrainConfig(), Setting(16, CLASSES, CLASSES, 16.0, 0.2))
    loss, logits = part(network, [view], torch.zeros(()))
    got = torch.autograd.grad(loss, list(network.parameters()))
    losses: list[Tensor] = []
    for f, y, other, share in zip(
        network.backbone(view.images), view.labels.tolist(), view.others.tolist(), view.share, strict=True
    ):
        z = torch.stack([16 * (f @ w) / f.norm() / w.norm() for w in network.head.weight])
        logs = z - z.exp().sum().log()
        wanted = torch.full((CLASSES,), 0.2 / CLASSES)  # label smoothing: a fifth for all alike
        wanted[y] += 0.8 * share
        wanted[other] += 0.8 * (1 - share)
        losses.append(-(wanted * logs).sum())
    expected = torch.stack(losses).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(got, torch.autograd.grad(expected, list(network.parameters())), strict=True):
        assert (mine - theirs).norm() < 1e-3 * theirs.norm() + 1e-6
    assert torch.allclose(logits, network(view.images), atol=1e-5)


def test_first_class_weights() -> None:
    network = classifier(400)
    before = network.head.weight.clone()
    with torch.no_grad():
        objective("cross_entropy").start(network)
        assert torch.equal(network.head.weight, before)
        objective("cross_entropy", first_rows="linear").start(network)
    assert 0.97 * 0.25 < network.head.weight.abs().max() <= 0.25  # uniform up to 1 / sqrt(16)


def test_teens_recipe_is_the_authors_script() -> None:
    config = configs.load("cifar100_teen")
    train, augment = config.train, config.train.augment
    assert (train.lr, train.min_lr, train.warmup_epochs, train.momentum, train.nesterov) == (0.1, 0, 0, 0.9, True)
    assert (train.epochs, train.batch_size, train.weight_decay, train.decay) == (600, 256, 5e-4, "all")
    assert (train.ema, train.clip, train.logit_scale, train.label_smoothing) == (0, 0, 16, 0)
    assert dict(train.objective_options) == {"first_rows": "linear"}
    assert (augment.flip, augment.border, augment.translate) == (0.5, "black", 4.5 / 32)
    assert (augment.autoaugment, 32 * augment.cutout, augment.blank) == (True, 16, "black")
    assert config.options["teen"] == {"share": 0.1, "temperature": 16}
    steps = 117  # whole batches of 30,000 images; the authors' rate falls once an epoch, ours in every step
    rates = [learning_rate(epoch * steps, 600 * steps, 0, train.lr, train.min_lr) for epoch in (0, 150, 300, 599)]
    assert rates == pytest.approx([0.1, 0.0853553, 0.05, 6.8539e-07], rel=1e-4)

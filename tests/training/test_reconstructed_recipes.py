"""What the recipes of reconstructed methods train: numbers of papers and of authors' scripts, written out."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fscil.core import config as configs
from fscil.core.config import AugmentConfig
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.methods import make
from fscil.training.trainer import Trainer


def test_topics_base_training_is_that_of_the_paper() -> None:
    """50 epochs of SGD with Nesterov's momentum 0.9, batches of 128, from 0.1 tenfold down after epochs 30 and 40."""
    config = configs.load("cifar100_topic", ["accelerator=cpu"])
    images = torch.zeros(60, 32, 32, 3, dtype=torch.uint8)  # so few that an epoch is one step
    run = Trainer(make_fabric(config), Session(0, range(60), images, torch.arange(60)), config)
    rates = []
    for step in range(run.total):
        run._set_pace(step)
        (one,) = {group["lr"] for group in run.optimizer.param_groups}
        rates.append(one)
    assert rates == pytest.approx([0.1] * 30 + [0.01] * 10 + [0.001] * 10)
    for group in run.optimizer.param_groups:
        assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, True, 5e-4)
    assert (run.train.batch_size, run.average) == (128, None)
    assert run.plain.classifier.head.weight.shape == (60, 64)
    assert run.plain.classifier.head.bias is None


def test_topics_sessions_are_those_of_the_script() -> None:
    options = make("topic", configs.load("cifar100_topic").options["topic"]).options()
    assert options["augment"] == configs.to_dict(AugmentConfig(flip=0.5, translate=4 / 32, border="black"))
    expected = {
        "nodes": 400, "grow": False, "weight_anchor": 350, "anchor_loss": "released", "weight_min": 0.3,
        "weight_max": 1e-4, "margin": 0.5, "node_lr": 0.1, "steps": 70, "drop": 10, "lr": 0.1, "momentum": 0.9,
        "weight_decay": 5e-4,
    }  # fmt: skip
    assert {key: options[key] for key in expected} == expected


def test_idlvqs_base_training_is_cecs_first_stage() -> None:
    ours, theirs = configs.load("cifar100_idlvq"), configs.load("cifar100_cec")
    assert ours.backbone == theirs.backbone
    assert ours.second is None
    assert ours.train == dataclasses.replace(theirs.train, objective="idlvq")
    assert make("idlvq", ours.options["idlvq"]).memory().per_class == 1

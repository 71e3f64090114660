"""What the recipe of SoftNet trains: numbers of the authors' script, worked out without it."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn

from fscil.core import config as configs
from fscil.core.config import AugmentConfig, Config
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.methods import make
from fscil.objectives.softnet import SoftNetObjective
from fscil.training.trainer import Trainer


@cache
def recipe() -> Config:
    return configs.load("cifar100_softnet", ["accelerator=cpu"])


@cache
def stage() -> Trainer:
    """With so few images that an epoch is one step: step and epoch are then the same number."""
    images = torch.randint(0, 256, (60, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    config = recipe()
    return Trainer(make_fabric(config), Session(0, range(60), images, torch.arange(60)), config)


def test_it_trains_as_the_authors() -> None:
    """SGD at 0.1, momentum 0.9, decay 5e-4 on everything, batches of 256; a hundredth of the rate after 120 epochs.

    They drop it after 120 * 117 updates, and 30,000 images fill 117 batches.
    """
    run, found = stage(), []
    for step in range(run.total):
        run._set_pace(step)
        found += list({group["lr"] for group in run.optimizer.param_groups})
    assert found == pytest.approx([0.1] * 120 + [0.001] * 121)
    for group in run.optimizer.param_groups:
        assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, False, 5e-4)
    assert (run.train.batch_size, run.average) == (256, None)
    assert 30_000 // run.train.batch_size == 117


def test_network_scores_and_head() -> None:
    run = stage()
    network, objective = run.plain.classifier, run.plain.objective
    assert isinstance(objective, SoftNetObjective)
    assert (objective.options.share, objective.options.soft) == (0.8, True)
    assert isinstance(network.head, nn.Linear)
    assert network.head.weight.shape == (100, 512)
    assert sum(p.numel() for p in objective.scores.parameters()) == 11_159_232
    kernels = [m for m in network.backbone.modules() if isinstance(m, nn.Conv2d)]
    assert len(objective.scores) == len(kernels) == 20
    assert sum(p.numel() for p in network.backbone.parameters()) == 11_168_832


def test_images_are_cropped_mirrored_and_recoloured() -> None:
    expected = AugmentConfig(
        crop_scale=0.2, flip=0.5, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, jitter=0.8, grey=0.2
    )
    assert recipe().train.augment == expected
    assert recipe().backbone.test_zoom == pytest.approx(36 / 32)


def test_sessions_are_the_papers() -> None:
    options = make("softnet", recipe().options.get("softnet")).options()
    assert options == {
        "epochs": 6, "lr": 0.02, "momentum": 0.9, "weight_decay": 5e-4, "part": "block", "share": 0.8,
    }  # fmt: skip

"""What the recipes of BiDist and DSN train: numbers of the authors' scripts, worked out without them."""

from __future__ import annotations

import pytest
import torch

from fscil.core import config as configs
from fscil.core.config import AugmentConfig
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.methods import make
from fscil.objectives.dsn import DSNObjective
from fscil.training.trainer import Trainer

# epochs, drops, batch
TRAININGS = {"bidist": (200, (120, 160), 256), "dsn": (200, (80, 120, 160), 128)}


def stage(recipe: str) -> Trainer:
    """With so few images that an epoch is one step: step and epoch are then the same number."""
    images = torch.randint(0, 256, (60, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    config = configs.load(recipe, ["accelerator=cpu"])
    return Trainer(make_fabric(config), Session(0, range(60), images, torch.arange(60)), config)


@pytest.mark.parametrize("name", TRAININGS)
def test_they_train_as_the_authors(name: str) -> None:
    epochs, drops, batch = TRAININGS[name]
    run = stage(f"cifar100_{name}")
    assert run.total == epochs
    rates = []
    for step in range(run.total):
        run._set_pace(step)
        rates += list({group["lr"] for group in run.optimizer.param_groups})
    assert rates == pytest.approx([0.1 * 0.1 ** sum(step >= drop for drop in drops) for step in range(epochs)])
    for group in run.optimizer.param_groups:
        assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, True, 5e-4)
    assert (run.train.batch_size, run.average, run.train.clip, run.train.label_smoothing) == (batch, None, 0, 0)
    network = run.plain.classifier
    assert sum(p.numel() for p in network.backbone.parameters()) == (11_176_512 if name == "dsn" else 11_168_832)
    if name == "dsn":
        assert isinstance(run.plain.objective, DSNObjective)
        assert run.plain.objective.first.weight.shape == (512, 512)
        assert run.plain.objective.classes.weight.shape == (60, 512)


def test_sessions_of_bidist_are_those_of_the_authors_script() -> None:
    options = make("bidist", configs.load("cifar100_bidist").options["bidist"]).options()
    changed = configs.load("cifar100_bidist").train.augment
    assert options.pop("augment") == vars(changed)
    assert options == {
        "steps": 100, "lr": 0.001, "momentum": 0.9, "weight_decay": 5e-4, "replay": 50, "distilled": 5,
        "temperature": 16.0, "weight_kept": 5.0, "weight_distilled": 100.0, "weight_trust": 1.0, "weight_merged": 5.0,
        "weight_branch": 50.0, "hidden": 64, "mixing_lr": 0.01, "scale": 10.0,
    }  # fmt: skip


def test_sessions_of_dsn_are_those_of_the_authors_script() -> None:
    recipe = configs.load("cifar100_dsn")
    options = make("dsn", recipe.options["dsn"]).options()
    assert options.pop("augment") == vars(AugmentConfig(flip=0.5, translate=6.5 / 32, border="black"))
    assert vars(recipe.train.augment) == vars(AugmentConfig(flip=0.5, translate=6.5 / 32, border="black"))
    assert options == {
        "epochs": 70, "batch": 256, "lr": 0.1, "momentum": 0.9, "dampening": 0.5, "first_step": "released",
        "trains": "session", "blend": 0.2, "samples": 5, "most": 5, "new_samples": 5, "rivals": 5, "refresh": 2,
        "inertia": 0.8, "weight_gates": 0.1, "weight_distilled": 1.0, "temperature": 0.5, "scale": 16.0,
    }  # fmt: skip

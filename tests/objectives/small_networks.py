"""A tiny network and a made-up batch, for objectives of base training."""

from __future__ import annotations

import torch

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.data.augment import Mixed
from fscil.objectives import Objective, Setting, build_objective
from fscil.training.checkpoint import Classifier
from fscil.training.trainer import Trainer

DIM, CLASSES, SIZE = 16, 4, 8


def classifier(outputs: int = CLASSES) -> Classifier:
    torch.manual_seed(0)
    network = BackboneConfig(image_size=SIZE, patch_size=4, embed_dim=DIM, depth=2, num_heads=2)
    return Classifier(network, TrainConfig(), outputs)


def objective(name: str, outputs: int = CLASSES, dim: int = DIM, **options: object) -> Objective:
    torch.manual_seed(1)
    train = TrainConfig(objective=name, objective_options=options)
    return build_objective(train, Setting(dim, CLASSES, outputs, 16.0, 0.0))


def batch(count: int = 12, seed: int = 0) -> Mixed:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    return Mixed(torch.rand(count, 3, SIZE, SIZE, generator=generator), labels, labels, torch.ones(count))


def views_for(part: Objective, count: int = 12) -> list[Mixed]:
    """Made-up views as the training loop would bring them."""
    wanted = part.episode()
    if wanted is None:
        return [batch(count, seed=view) for view in range(part.views + part.plain)]
    labels = torch.arange(wanted.classes).repeat_interleave(wanted.images)
    images = batch(len(labels), seed=9).images
    shown = Mixed(images, labels, labels, torch.ones(len(labels)))
    return [shown] if wanted.alone else [*(batch(count, seed=view) for view in range(part.views)), shown]


def image_session(count: int = 64) -> Session:
    """Classes that differ in colour."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % CLASSES
    images = torch.randint(0, 120, (count, SIZE, SIZE, 3), generator=generator, dtype=torch.uint8)
    images[torch.arange(count), :, :, labels % 3] += 60 + 60 * (labels // 3).to(torch.uint8)[:, None, None]
    return Session(0, range(CLASSES), images, labels)


def trainer(name: str, *overrides: str, folder: object = None) -> Trainer:
    settings = [
        f"train.objective={name}", "backbone.embed_dim=16", "backbone.depth=2", "train.batch_size=16",
        "train.epochs=4", "train.ema=0.5", "accelerator=cpu", *overrides,
    ]  # fmt: skip
    config = configs.load("digits", settings)
    extra = {} if folder is None else {"folder": folder}
    return Trainer(make_fabric(config), image_session(), config, **extra)  # type: ignore[arg-type]

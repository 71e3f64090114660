"""What the recipes of ALICE, S3C and FACT train: numbers of the authors' scripts, worked out without this package."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR
from torchvision import transforms

from fscil.core import config as configs
from fscil.core.config import Config
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.data.augment import Augment
from fscil.training.loop import Trainer

RECIPES = ("cifar100_alice", "cifar100_s3c", "cifar100_fact")


def recipe(name: str) -> Config:
    return configs.load(name, ["accelerator=cpu"])


@cache
def trainer(name: str) -> Trainer:
    """With so few images that an epoch is one step: step and epoch are then the same number."""
    labels = torch.arange(60)
    images = torch.randint(0, 256, (60, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    config = recipe(name)
    return Trainer(make_fabric(config), Session(0, range(60), images, labels), config)


def authors_schedule(name: str, optimizer: torch.optim.Optimizer) -> LRScheduler:
    if name == "cifar100_fact":
        return CosineAnnealingLR(optimizer, T_max=600)
    return MultiStepLR(optimizer, {"cifar100_alice": [60, 70], "cifar100_s3c": [120, 160]}[name], gamma=0.1)


@pytest.mark.parametrize("name", RECIPES)
def test_every_epoch_has_the_authors_rate(name: str) -> None:
    run = trainer(name)
    epochs, rate = {"cifar100_alice": (100, 0.01), "cifar100_s3c": (200, 0.1), "cifar100_fact": (600, 0.1)}[name]
    assert run.total == epochs
    theirs = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)
    schedule = authors_schedule(name, theirs)
    for epoch in range(epochs):
        run._set_pace(epoch)
        expected = schedule.get_last_lr()[0]
        for group in run.optimizer.param_groups:
            assert group["lr"] == pytest.approx(expected, abs=1e-12)
        theirs.step()
        schedule.step()


@pytest.mark.parametrize("name", RECIPES)
def test_the_optimizer_is_the_authors(name: str) -> None:
    """SGD(model.parameters(), momentum=0.9, nesterov=True, weight_decay=5e-4), and every weight in it once."""
    run = trainer(name)
    assert isinstance(run.optimizer.optimizer, torch.optim.SGD)
    for group in run.optimizer.param_groups:
        assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, True, 5e-4)
        assert group["dampening"] == 0
    held = [id(p) for group in run.optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in run.plain.parameters())
    assert run.average is None  # the last weights, not their average
    assert run.warmup == 0


@pytest.mark.parametrize(("name", "batch"), [("cifar100_alice", 128), ("cifar100_s3c", 128), ("cifar100_fact", 256)])
def test_batches_are_the_authors(name: str, batch: int) -> None:
    assert recipe(name).train.batch_size == batch


def test_alice_has_the_authors_parameters_and_first_weights() -> None:
    loss = trainer("cifar100_alice").plain
    assert sum(p.numel() for p in loss.classifier.backbone.parameters()) == 11_168_832
    rows = loss.objective.rows.detach()
    assert rows.shape == (100 + 1770 + 8 * 10, 2048)
    bound = math.sqrt(6 / (1950 + 2048))  # xavier_uniform_
    assert bound * 0.999 < float(rows.abs().max()) <= bound
    for module in loss.classifier.backbone.modules():
        if isinstance(module, nn.Conv2d):  # torch's own: uniform, up to 1 / sqrt(inputs)
            inputs = module.weight[0].numel()
            assert 0.99 / math.sqrt(inputs) < float(module.weight.detach().abs().max()) <= 1 / math.sqrt(inputs)


@pytest.mark.parametrize("name", ["cifar100_s3c", "cifar100_fact"])
def test_the_others_start_as_cecs_resnet_does(name: str) -> None:
    backbone = trainer(name).plain.classifier.backbone
    assert sum(p.numel() for p in backbone.parameters()) == 271_824
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 9000:  # kaiming_normal_ by outputs
            outputs = module.out_channels * module.kernel_size[0] ** 2
            assert float(module.weight.detach().std()) == pytest.approx(math.sqrt(2 / outputs), rel=0.05)


def test_s3c_has_a_row_for_every_turn_and_sees_all_of_them() -> None:
    loss = trainer("cifar100_s3c").plain
    assert loss.objective.mu.shape == loss.objective.sigma.shape == (240, 64)
    assert recipe("cifar100_s3c").options["s3c"] == {"lr": 0.01, "weight_old": 5.0}


def test_fact_has_the_authors_options() -> None:
    config = recipe("cifar100_fact")
    expected = {"virtual": 40, "balance": 0.001, "alpha": 0.5, "choice": "released"}
    assert config.train.objective_options == expected
    assert config.options["fact"] == {"normalise": "feature"}


@pytest.mark.parametrize("name", ["cifar100_s3c", "cifar100_fact"])
def test_images_are_shifted_as_random_crops_of_a_black_frame(name: str) -> None:
    """The same places and the same black as RandomCrop(32, padding=4) and a flip, in 3,000 draws of each."""
    values = {"autoaugment": False, "cutout": 0.0}
    config = configs.load(name, [f"train.augment.{key}={str(value).lower()}" for key, value in values.items()])
    image = torch.arange(32 * 32 * 3).reshape(32, 32, 3).remainder(251).to(torch.uint8) + 1
    ours = Augment(config.train.augment, 3000, torch.device("cpu"))(
        image.expand(3000, -1, -1, -1), torch.zeros(3000), 1
    )
    theirs = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()])
    torch.manual_seed(0)
    possible = {theirs(image.permute(2, 0, 1)).numpy().tobytes() for _ in range(3000)}
    got = {(x * 255).round().to(torch.uint8).numpy().tobytes() for x in ours.images}
    assert len(possible) == len(got) == 9 * 9 * 2
    assert possible == got

"""What the recipes of subspace regularizers and OrCo train: numbers of the authors' scripts, worked out without it."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from small_networks import image_session, trainer
from torch import Tensor, nn

from fscil.core import config as configs
from fscil.core.config import AugmentConfig, Config
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.methods import make
from fscil.objectives.orco import OrCoAlignment, OrCoObjective
from fscil.training.checkpoint import Checkpoint
from fscil.training.trainer import Trainer


def recipe(name: str) -> Config:
    return configs.load(name, ["accelerator=cpu"])


@cache
def stage(name: str, second: bool = False) -> Trainer:
    """With so few images that an epoch is one step: step and epoch are then the same number."""
    labels = torch.arange(60)
    images = torch.randint(0, 256, (60, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    config, start = recipe(name), None
    if second:
        first = stage(name)
        info = {"seconds": 0.0, "peak_memory_mb": 0.0}
        start = Checkpoint(first.plain.classifier, info, first.plain.objective.state_dict())
    return Trainer(make_fabric(config), Session(0, range(60), images, labels), config, start=start)


def rates(run: Trainer) -> list[float]:
    found = []
    for step in range(run.total):
        run._set_pace(step)
        (one,) = {group["lr"] for group in run.optimizer.param_groups}
        found.append(one)
    return found


def test_subspace_regularizers_train_as_the_authors() -> None:
    """SGD(lr=0.05, momentum=0.9, weight_decay=5e-4), batches of 64; the rate falls tenfold after epochs 60 and 80."""
    run = stage("cifar100_subspace_reg")
    assert rates(run) == pytest.approx([0.05] * 60 + [0.005] * 20 + [0.0005] * 20)
    for group in run.optimizer.param_groups:
        assert (group["momentum"], group["nesterov"], group["weight_decay"]) == (0.9, False, 5e-4)
    assert run.train.batch_size == 64
    assert run.average is None
    head = run.plain.classifier.head
    assert isinstance(head, nn.Linear)
    assert head.bias is None
    assert head.weight.shape == (60, 640)
    assert sum(p.numel() for p in run.plain.classifier.backbone.parameters()) == 12_424_320


def test_subspace_regularizers_have_the_authors_sessions() -> None:
    options = make("subspace-reg", recipe("cifar100_subspace_reg").options["subspace-reg"]).options()
    shifts = AugmentConfig(flip=0.5, translate=4 / 32, border="black")
    assert options.pop("augment") == configs.to_dict(shifts)
    expected = {
        "weight_base": 0.2, "weight_old": 0.1, "pull": 1.0, "replay": True, "copies": 5, "lr": 0.002, "momentum": 0.9,
        "weight_decay": 5e-4, "steps": 1000, "settled": 10, "tolerance": 1e-4, "rows": "auto", "scale": 16.0,
    }  # fmt: skip
    assert options == expected


def test_orcos_first_stage_has_the_released_schedule() -> None:
    """From 0.003, by their code, and from a tenth of 0.8 here, to 0.8 in ten epochs; then a cosine to 0."""
    run = stage("cifar100_orco")
    assert run.total == 300
    found = rates(run)
    assert found[:10] == pytest.approx([0.08 * (epoch + 1) for epoch in range(10)])
    expected = [0.4 * (1 + math.cos(math.pi * (epoch - 10) / 290)) for epoch in range(10, 300)]
    assert found[10:] == pytest.approx(expected, abs=1e-9)
    assert isinstance(run.plain.objective, OrCoObjective)
    assert (run.train.batch_size, run.plain.objective.views, run.average) == (512, 4, None)
    for module in run.plain.classifier.backbone.modules():
        if isinstance(module, nn.Conv2d):  # torch's own first weights, up to 1 / sqrt(inputs)
            bound = 1 / math.sqrt(module.weight[0].numel())
            assert 0.99 * bound < float(module.weight.detach().abs().max()) <= bound


def test_orcos_second_stage_is_the_released_one() -> None:
    run = stage("cifar100_orco", second=True)
    assert rates(run) == pytest.approx([0.025] * 10)
    objective, first = run.plain.objective, stage("cifar100_orco").plain.objective
    assert isinstance(objective, OrCoAlignment)
    assert sum(p.numel() for p in objective.projector.parameters()) == 1_575_040
    for name, value in first.projector.state_dict().items():
        assert torch.equal(objective.projector.state_dict()[name], value)  # it goes on with that of the first
    assert objective.targets.shape == (100, 128)
    assert not run.plain.classifier.training
    assert not any(p.requires_grad for p in run.plain.classifier.parameters())
    o = objective.options
    assert (o.perturbation, o.target_steps, o.train_network) == (9e-5, 1000, False)


def test_a_tenth_of_the_rate_is_the_released_dampening() -> None:
    """Of SGD with momentum 0.9: but for the first gradient, which torch does not dampen."""
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.zeros(5), *torch.randn(8, 5, generator=generator)]
    ours, theirs = (nn.Parameter(torch.ones(5)) for _ in range(2))
    optimizers = [
        torch.optim.SGD([ours], lr=0.025, momentum=0.9, weight_decay=0.0),
        torch.optim.SGD([theirs], lr=0.25, momentum=0.9, dampening=0.9, weight_decay=0.0),
    ]
    for gradient in gradients:
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_orco_has_the_authors_sessions() -> None:
    config = recipe("cifar100_orco")
    options = make("orco", config.options["orco"]).options()
    expected = {
        "exemplars": 5, "epochs": 100, "batch": 64, "lr": 0.1, "warmup_epochs": 10, "momentum": 0.9, "dampening": 0.9,
        "first_step": "released", "weight_decay": 1e-4, "weight_new": 0.5, "weight_base": 0.0, "perturbation": 9e-5,
        "copies": 0,
    }  # fmt: skip
    assert {key: options[key] for key in expected} == expected
    assert config.second is not None
    assert options["augment"] == configs.to_dict(config.second.augment)  # of the same images


def test_on_glyphs_orco_aligns_the_network_of_the_recipe() -> None:
    """Its first stage is the recipe's training, so a stored network of that is taken for it."""
    config = recipe("glyphs_orco")
    assert (config.train, config.backbone) == (recipe("glyphs").train, recipe("glyphs").backbone)
    assert config.second is not None
    assert config.second.objective == "orco_alignment"
    assert config.second.augment == config.train.augment
    assert make("orco", config.options["orco"]).options()["augment"] == configs.to_dict(config.second.augment)


def lars_by_hand(weight: Tensor, gradients: list[Tensor], rate: float, decay: float, adapted: bool) -> Tensor:
    """Number by number, as You et al. (2017) with LARC's clipping: a step is cut to 0.02 of the weight's length."""
    values = [float(v) for v in weight.flatten()]
    speed = [0.0] * len(values)
    for step, gradient in enumerate(gradients):
        g = [float(v) for v in gradient.flatten()]
        length, size = (math.sqrt(sum(v * v for v in each)) for each in (values, g))
        if adapted:
            g = [a + decay * v for a, v in zip(g, values, strict=True)]
            if length > 0 and size > 0:
                trust = 0.02 * length / (size + decay * length + 1e-8)
                g = [min(trust / rate, 1.0) * a for a in g]
        speed = [a if step == 0 else 0.9 * s + a for s, a in zip(speed, g, strict=True)]
        values = [v - rate * s for v, s in zip(values, speed, strict=True)]
    return torch.tensor(values).view(weight.shape)


def test_lars_against_a_slow_twin() -> None:
    """Matrices and kernels by their length, with decay; vectors as by SGD, without. Of gradients long and short."""
    run = trainer(
        "cross_entropy", "backbone.kind=resnet20", "train.optimizer=lars", "train.nesterov=false", "train.clip=0",
        "train.weight_decay=0.3", "train.lr=0.5", "train.milestones=[99]", "train.warmup_epochs=0",
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    parameters = dict(run.plain.named_parameters())
    chosen = [name for name in parameters if "stem" in name or "head" in name]
    assert len(chosen) == 4
    parameters[chosen[1]].data.zero_()  # the weight of a norm: no length to go by
    before = {name: parameters[name].detach().clone() for name in chosen}
    sizes = (1e-3, 1.0, 50.0)
    drawn = {name: [size * torch.randn(before[name].shape, generator=generator) for size in sizes] for name in chosen}
    for step in range(len(sizes)):
        run._set_pace(step)
        run.optimizer.zero_grad()
        for name in chosen:
            parameters[name].grad = drawn[name][step].clone()
        run.optimizer.step()
    for name in chosen:
        expected = lars_by_hand(before[name], drawn[name], 0.5, 0.3, before[name].ndim > 1)
        assert torch.allclose(parameters[name].detach(), expected, rtol=1e-4, atol=1e-6), name


def test_lars_learns_and_continues(tmp_path: object) -> None:
    settings = ("train.optimizer=lars", "train.lr=0.5", "train.nesterov=false", "train.epochs=10")
    whole, first = trainer("cross_entropy", *settings), trainer("cross_entropy", *settings, folder=tmp_path)
    losses = [float(whole.step(step)) for step in range(12)]
    assert sum(losses[-4:]) < sum(losses[:4])
    for step in range(5):
        first.step(step)
        first.done = step + 1
    first.save_state()
    second = trainer("cross_entropy", *settings, folder=tmp_path)
    second.restore()
    for step in range(5, 12):
        second.step(step)
    expected, got = whole.plain.state_dict(), second.plain.state_dict()
    assert all(torch.equal(expected[key], got[key]) for key in expected)
    assert len(image_session()) // 16 == whole.epoch_steps

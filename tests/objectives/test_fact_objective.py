"""FACT's base training: the three losses by hand, and that nothing is left of them at weight 0."""

from __future__ import annotations

import math

import pytest
import torch
from small_networks import CLASSES, DIM, batch, classifier, objective, trainer

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives.fact import mixture_losses, second_best_loss, symmetric_beta
from fscil.training.checkpoint import Classifier

NOW = torch.zeros(())


def of_label(label: int) -> Mixed:
    labels = torch.tensor([label])
    return Mixed(torch.empty(1), labels, labels, torch.ones(1))


def test_losses_of_a_mixture_by_hand() -> None:
    """Two real classes and two virtual ones: virtual class 2 first; with it ruled out, real class 0."""
    got = mixture_losses(torch.tensor([[1.0, 0.0, 2.0, 0.5]]), classes=2)
    first = math.log(math.e + 1 + math.e**2 + math.exp(0.5)) - 2
    second = math.log(math.e + 1 + math.exp(0.5)) - 1
    assert float(got) == pytest.approx(first + second, rel=1e-5)


def test_second_best_label_is_a_virtual_class_attached_to_the_label() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.2, -1.0]])
    rest = math.log(math.e + math.exp(0.2) + math.exp(-1))  # the label itself, 3.0, is ruled out
    attached = torch.tensor([[False, True], [True, False]])
    assert float(second_best_loss(logits, of_label(0), 2, attached)) == pytest.approx(rest + 1.0, rel=1e-5)
    nothing = torch.zeros(2, 2, dtype=torch.bool)  # a class without any takes the nearest of all
    assert float(second_best_loss(logits, of_label(0), 2, nothing)) == pytest.approx(rest - 0.2, rel=1e-5)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_shares_follow_the_symmetric_beta_distribution(alpha: float) -> None:
    drawn = symmetric_beta(alpha, *torch.rand(2, 200_000, generator=torch.Generator().manual_seed(0)))
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.005)
    assert float(drawn.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.02)
    assert ((drawn >= 0) & (drawn <= 1)).all()


def test_at_weight_nought_it_is_the_plain_cosine_baseline() -> None:
    got = []
    for name, options in (("cross_entropy", {}), ("fact", {"balance": 0.0})):
        network = classifier()
        loss, logits = objective(name, **options)(network, [batch()], NOW)
        loss.backward()
        got.append([loss, logits, *[p.grad for p in network.parameters()]])
    assert all(torch.equal(a, b) for a, b in zip(*got, strict=True))


def test_the_losses_come_in_at_their_time() -> None:
    network, part = classifier(), objective("fact", balance=1.0, start=0.5)
    plain, _ = objective("cross_entropy")(network, [batch()], NOW)
    early, _ = part(network, [batch()], torch.tensor(0.49))
    late, _ = part(network, [batch()], torch.tensor(0.5))
    assert early.item() == pytest.approx(plain.item(), rel=1e-6)
    assert late.item() > plain.item()


def test_every_virtual_class_is_attached_to_three_base_classes() -> None:
    part = objective("fact", virtual=11)
    assert part.virtual.shape == (11, DIM)
    assert part.attached.shape == (CLASSES, 11)
    assert part.attached.sum(0).tolist() == [3] * 11
    assert objective("fact", attached=0).attached.all()


def test_anchors_stay_and_virtual_prototypes_move() -> None:
    run = trainer("fact", "train.objective_options={balance=1.0, virtual=6}")
    part = run.plain.objective
    anchors, virtual = part.anchors.clone(), part.virtual.detach().clone()
    assert torch.equal(anchors, virtual)
    for step in range(4):
        run.step(step)
    assert torch.equal(part.anchors, anchors)
    assert not torch.equal(part.virtual, virtual)


@pytest.mark.parametrize("kind", ["vit", "resnet20", "resnet12"])
@pytest.mark.parametrize("stage", [-1, 0, 1])
def test_images_are_mixed_inside_any_network(kind: str, stage: int) -> None:
    torch.manual_seed(0)
    size = BackboneConfig(kind=kind, image_size=16, patch_size=4, embed_dim=DIM, depth=2, num_heads=2)
    network = Classifier(size, TrainConfig(), CLASSES)
    part = objective("fact", mix_after=stage, balance=1.0)
    part.virtual = torch.nn.Parameter(torch.randn(5, network.backbone.dim))
    part.anchors, part.attached = torch.randn(5, network.backbone.dim), torch.ones(CLASSES, 5, dtype=torch.bool)
    images = torch.nn.functional.interpolate(batch().images, (16, 16))
    mixed = Mixed(images, batch().labels, batch().others, batch().share)
    loss, logits = part(network, [mixed], NOW)
    loss.backward()
    assert logits.shape == (12, CLASSES)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())
    assert part.virtual.grad.abs().sum() > 0


def test_pairs_of_one_class_make_no_mixture_loss() -> None:
    network, part = classifier(), objective("fact", balance=1.0)
    labels = torch.zeros(6, dtype=torch.long)
    part(network, [Mixed(batch(6).images, labels, labels, torch.ones(6))], NOW)[0].backward()
    assert part.virtual.grad.abs().sum() == 0


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"virtual": 0}, {"alpha": 0.0}, {"balance": -1.0}, {"attached": -1}):
        with pytest.raises(InputError, match=r"train\.objective_options\.\w+ must be"):
            objective("fact", **bad)
    network = Classifier(BackboneConfig(image_size=8, patch_size=4, embed_dim=DIM), TrainConfig(head="etf"), CLASSES)
    with pytest.raises(InputError, match="head=cosine"):
        objective("fact")(network, [batch()], NOW)
    with pytest.raises(InputError, match="Stage 9"):
        objective("fact", mix_after=9)(classifier(), [batch()], NOW)

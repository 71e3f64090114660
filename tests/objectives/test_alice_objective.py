"""ALICE's base training: the angular penalty and the fused classes, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives import Setting, build_objective
from fscil.objectives.alice import ALICEObjective, angular_penalty, fused_label, fused_share
from fscil.training.checkpoint import Classifier

NETWORK = BackboneConfig(image_size=8, patch_size=4, embed_dim=16, depth=1, num_heads=2)


def objective(classes: int = 6, dim: int = 16, **options: Any) -> ALICEObjective:
    torch.manual_seed(0)
    train = TrainConfig(objective="alice", objective_options={"width": 32, **options})
    built = build_objective(train, Setting(dim, classes, classes, 16.0, 0.0))
    assert isinstance(built, ALICEObjective)
    return built


def batch(labels: list[int], seed: int = 0) -> Mixed:
    y = torch.tensor(labels)
    images = torch.rand(len(labels), 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return Mixed(images, y, y, torch.ones(len(labels)))


def test_the_penalty_by_hand() -> None:
    """Cosines 0.5 and 0.2, label 0, scale 10, margin 0.3: the cosines look equal, so the loss is log 2."""
    cosines, label = torch.tensor([[0.5, 0.2]]), torch.tensor([0])
    assert angular_penalty(cosines, label, 10.0, 0.3).item() == pytest.approx(math.log(2))
    assert torch.allclose(angular_penalty(cosines, label, 30.0, 0.0), F.cross_entropy(30 * cosines, label))
    losses = [angular_penalty(cosines, label, 30.0, margin).item() for margin in (0.0, 0.1, 0.2, 0.4)]
    assert losses == sorted(losses)
    assert len(set(losses)) == 4


def test_every_pair_has_a_class_of_its_own() -> None:
    one, two = torch.triu_indices(60, 60, offset=1)
    labels = fused_label(one, two, 60)
    assert sorted(labels.tolist()) == list(range(60, 60 + 1770))
    assert torch.equal(fused_label(two, one, 60), labels)
    assert fused_label(torch.tensor([0, 0, 1]), torch.tensor([1, 59, 2]), 60).tolist() == [60, 118, 119]


def test_shares_are_near_a_half() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.rand(2, 20_000, generator=generator)
    shares = fused_share(first, second, 20.0)
    assert shares.min() >= 0.4
    assert shares.max() <= 0.6
    # Beta(20, 20) has a deviation of 1 / (2 sqrt(41)); 0.1 is 1.28 of them, so about a fifth lies outside.
    assert (shares == 0.5).float().mean().item() == pytest.approx(0.2, abs=0.02)


def test_sizes_are_the_published_ones() -> None:
    published = objective(classes=60, dim=512, width=2048)
    assert sum(p.numel() for p in published.projection.parameters()) == 5_251_072
    assert published.rows.shape == (60 + 1770, 2048)
    assert objective(fused=0.0).rows.shape == (6, 32)


def test_the_loss_against_a_slow_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused images built one by one, pairs of one class left out instead of masked."""
    alice = objective(fused=1.5).eval()  # BatchNorm then treats every image alone
    classifier = Classifier(NETWORK, TrainConfig(), 6).eval()
    views = [batch([0, 3, 3, 5, 1, 0], seed) for seed in (1, 2)]
    drawn: list[torch.Tensor] = []
    real_rand = torch.rand

    def remembered(*shape: int, **rest: Any) -> torch.Tensor:
        drawn.append(real_rand(*shape, **rest))
        return drawn[-1]

    monkeypatch.setattr(torch, "rand", remembered)
    loss, logits = alice(classifier, views, torch.tensor(0.0))
    orders, shares = drawn[0].argsort(1), fused_share(drawn[1][0], drawn[1][1], 20.0)
    total = 0.0
    fused = 0
    for view in views:
        losses = []
        samples = [(image, int(label)) for image, label in zip(view.images, view.labels, strict=True)]
        for number in range(9):
            i, j = number % 6, int(orders[number // 6, number % 6])
            a, b = sorted((int(view.labels[i]), int(view.labels[j])))
            if a != b:
                share = float(shares[number])
                image = share * view.images[i] + (1 - share) * view.images[j]
                samples.append((image, 6 + a * (2 * 6 - a - 1) // 2 + (b - a) - 1))
                fused += 1
        for image, label in samples:
            feature = alice.projection(classifier.backbone(image[None]))[0]
            cosines = F.cosine_similarity(feature[None], alice.rows).detach()
            scores = [30 * (float(c) - 0.4 * (k == label)) for k, c in enumerate(cosines)]
            losses.append(torch.logsumexp(torch.tensor(scores), 0).item() - scores[label])
        total += sum(losses) / len(losses) / 2
    assert 0 < fused < 18  # some pairs were of one class
    probe = F.cross_entropy(classifier(views[0].images), views[0].labels).item()
    assert loss.item() == pytest.approx(total + probe, rel=1e-3)
    assert torch.allclose(logits, classifier(views[0].images), atol=1e-5)


def test_the_probe_does_not_move_the_features() -> None:
    alice = objective()
    classifier = Classifier(NETWORK, TrainConfig(), 6)
    first = alice.projection[0]
    assert isinstance(first, torch.nn.Linear)
    torch.nn.init.zeros_(first.weight)  # the penalty has nothing left to say to the backbone
    alice(classifier, [batch([0, 1, 2, 3]), batch([0, 1, 2, 3])], torch.tensor(0.0))[0].backward()
    assert all(p.grad is None or not p.grad.any() for p in classifier.backbone.parameters())
    assert classifier.head.weight.grad is not None
    assert classifier.head.weight.grad.any()


def test_wrong_options_are_refused() -> None:
    for options in ({"fused": -1.0}, {"alpha": 0.0}, {"scale": 0.0}, {"width": 0}):
        with pytest.raises(InputError, match=r"train\.objective_options\.\w+ must be"):
            objective(**options)

"""ALICE's base training: the angular penalty and the fused classes, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from slow_twins import cosine, remember, same_loss_and_gradients, surprise
from torch import Tensor

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
    assert objective(classes=60, width=8, spare=120).rows.shape == (1950, 8)
    assert objective(fused=0.0).rows.shape == (6, 32)


def test_the_whole_loss_against_a_slow_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused images built one by one, and BatchNorm by hand over all of them; pairs of one class count for nothing."""
    alice = objective(fused=1.5, spare=2, scale=20.0, margin=0.3)
    classifier = Classifier(NETWORK, TrainConfig(), 6)
    with torch.no_grad():
        for norm in (part for part in alice.projection if isinstance(part, torch.nn.BatchNorm1d) and part.affine):
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_()
    labels, others = torch.tensor([0, 3, 3, 5, 1, 0]), torch.tensor([1, 3, 2, 0, 1, 4])
    views = [Mixed(batch([0] * 6, seed).images, labels, others, torch.rand(6)) for seed in (1, 2)]
    drawn = remember(monkeypatch, "rand")
    loss, logits = alice(classifier, views, torch.tensor(0.0))
    assert [tuple(each.shape) for each in drawn] == [(2, 6), (2, 9)]  # a whole order of the batch, and half of one
    orders = [sorted(range(6), key=lambda place, row=row: float(row[place])) for row in drawn[0]]  # type: ignore[misc]
    shares = fused_share(drawn[1][0], drawn[1][1], 20.0)

    def normalised(x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()

    halves, dropped = [], 0
    for view in views:
        images, fused = list(view.images), []
        for number in range(9):
            i, j = number % 6, orders[number // 6][number % 6]
            a, b = sorted((int(labels[i]), int(labels[j])))
            images.append(shares[number] * view.images[i] + (1 - shares[number]) * view.images[j])
            # Counted by hand: pairs (0, 1), (0, 2) ... (4, 5) have the classes 6, 7 ... 20.
            fused.append(6 + [(p, q) for p in range(6) for q in range(p + 1, 6)].index((a, b)) if a != b else None)
            dropped += a == b
        features = torch.cat([classifier.backbone(image[None]) for image in images])
        linear, norm, _, linear2, _ = alice.projection
        x = normalised(features @ linear.weight.T + linear.bias) * norm.weight + norm.bias
        x = normalised(x.clamp(min=0) @ linear2.weight.T + linear2.bias)

        def penalty(number: int, label: int, x: Tensor = x) -> Tensor:
            cosines = [cosine(x[number], row) for row in alice.rows]
            return surprise([20 * (c - 0.3 * (k == label)) for k, c in enumerate(cosines)], label)

        losses = [
            share * penalty(n, int(labels[n])) + (1 - share) * penalty(n, int(others[n]))
            for n, share in enumerate(view.share)
        ]
        losses += [penalty(6 + n, label) for n, label in enumerate(fused) if label is not None]
        halves.append(torch.stack(losses).mean() / 2)
    assert 0 < dropped < 18  # some pairs were of one class
    probe = []
    for n, share in enumerate(views[0].share):
        feature = classifier.backbone(views[0].images[n][None])[0].detach()
        plain = [16 * cosine(feature, row) for row in classifier.head.weight]
        assert torch.allclose(torch.stack(plain), logits[n], atol=1e-4)
        probe.append(share * surprise(plain, int(labels[n])) + (1 - share) * surprise(plain, int(others[n])))
    twin = halves[0] + halves[1] + torch.stack(probe).mean()
    # What BatchNorm takes off again hears nothing: both biases of the projection, and the last one of the network.
    same_loss_and_gradients(loss, twin, [*classifier.parameters(), *alice.parameters()], zero=3)


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
    for options in ({"fused": -1.0}, {"alpha": 0.0}, {"scale": 0.0}, {"width": 0}, {"spare": -1}):
        with pytest.raises(InputError, match=r"train\.objective_options\.\w+ must be"):
            objective(**options)

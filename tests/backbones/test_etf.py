"""The fixed frame of NC-FSCIL and its loss: the card's numbers, by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fscil.backbones.heads import DIM, EtfHead, Neck, simplex_frame
from fscil.core import config as configs
from fscil.core.config import TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives import dot_regression


def test_every_pair_of_vectors_has_the_same_angle() -> None:
    frame = simplex_frame(100, 512, torch.Generator().manual_seed(0)).double()
    products = frame @ frame.T
    assert torch.allclose(products.diagonal(), torch.ones(100, dtype=torch.float64), atol=1e-6)
    others = products[~torch.eye(100, dtype=torch.bool)]
    assert others.min().item() == pytest.approx(-1 / 99, abs=1e-6)
    assert others.max().item() == pytest.approx(-1 / 99, abs=1e-6)


def test_too_many_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        simplex_frame(513, 512, torch.Generator())


def test_the_neck_has_the_published_size_and_shape() -> None:
    neck = Neck(640, DIM)
    assert sum(p.numel() for p in neck.parameters()) == 3_448_320
    x = torch.randn(3, 640)
    deep = neck.deep
    hidden = F.leaky_relu(deep[1](deep[0](x)), 0.1)
    hidden = F.leaky_relu(deep[4](deep[3](hidden)), 0.1)
    expected = hidden @ deep[6].weight.T + x @ neck.shortcut.weight.T
    assert torch.allclose(neck(x), expected, atol=1e-5)


def test_the_frame_is_not_trained_and_only_base_classes_are_told_apart() -> None:
    head = EtfHead(16, classes=6, scale=16.0, vertices=10)
    before = head.weight.clone()
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    logits = head(torch.randn(4, 16))
    assert logits.shape == (4, 6)
    logits.sum().backward()
    optimizer.step()
    assert torch.equal(head.weight, before)
    assert head.weight.shape == (10, DIM)
    assert "weight" in head.state_dict()  # it must travel with the checkpoint


def test_dot_regression_on_its_vertex_on_another_and_mixed() -> None:
    frame = simplex_frame(100, 512, torch.Generator().manual_seed(1))
    labels, others = torch.tensor([3, 3]), torch.tensor([3, 7])
    cosines = frame[[3, 7]] @ frame.T  # one feature on the vertex of class 3, one on that of class 7
    ones = torch.ones(2)
    right = dot_regression(cosines[:1], Mixed(torch.empty(0), labels[:1], labels[:1], ones[:1]))
    wrong = dot_regression(cosines[1:], Mixed(torch.empty(0), labels[1:], labels[1:], ones[1:]))
    mixed = dot_regression(cosines[1:], Mixed(torch.empty(0), labels[1:], others[1:], 0.25 * ones[1:]))
    assert right.item() == pytest.approx(0, abs=1e-9)
    assert wrong.item() == pytest.approx(5 * (1 + 1 / 99) ** 2, rel=1e-5)
    assert mixed.item() == pytest.approx(0.25 * 5 * (1 + 1 / 99) ** 2, rel=1e-5)


def test_its_gradient_is_orthogonal_to_the_feature() -> None:
    frame = simplex_frame(5, 16, torch.Generator().manual_seed(2))
    h = torch.randn(4, 16, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 3])
    batch = Mixed(torch.empty(0), labels, labels, torch.ones(4))
    dot_regression(F.normalize(h, dim=-1) @ frame.T, batch).backward()
    assert h.grad is not None
    assert torch.allclose((h.grad * h).sum(1), torch.zeros(4), atol=1e-6)
    assert h.grad.norm() > 0


def test_unknown_heads_and_objectives_are_refused() -> None:
    with pytest.raises(InputError, match="cosine, etf or linear"):
        TrainConfig(head="ets")  # type: ignore[arg-type]
    assert configs.load("cifar100_teacher").train.vertices == 100

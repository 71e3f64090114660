"""Margins against the numbers of CLOM's definition, and against each other."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from fscil.data.augment import Mixed
from fscil.objectives.margins import margin_cross_entropy, related_margins, with_margins


def uniform_margins(classes: int, margin: float) -> torch.Tensor:
    """`margin` everywhere but on the diagonal."""
    return margin * (1 - torch.eye(classes))


def sample(classes: int = 5, count: int = 7) -> tuple[torch.Tensor, Mixed]:
    generator = torch.Generator().manual_seed(0)
    cosines = torch.rand(count, classes, generator=generator, dtype=torch.float64) * 2 - 1
    labels = torch.randint(classes, (count,), generator=generator)
    return cosines, Mixed(torch.empty(0), labels, labels, torch.ones(count, dtype=torch.float64))


def test_related_margins_by_hand() -> None:
    # Cosines: 1 between the first two, 0 and 0 to the third. The mean pair has 1/3.
    weights = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    margins = related_margins(weights, average=-0.2, alike=-0.5)
    # r = 1: -0.5. r = 0: -0.2 - 0.3 * (0 - 1/3) / (2/3) = -0.05.
    expected = torch.tensor([[0.0, -0.5, -0.05], [-0.5, 0.0, -0.05], [-0.05, -0.05, 0.0]])
    assert torch.allclose(margins, expected, atol=1e-6)


def test_related_margins_are_symmetric_average_out_and_let_no_gradient_through() -> None:
    weights = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    margins = related_margins(weights, 0.1, 0.2)
    assert torch.allclose(margins, margins.T)
    assert float(margins.sum() / 30) == pytest.approx(0.1, abs=1e-6)
    assert not margins.requires_grad


def test_all_classes_alike_is_no_division_by_zero() -> None:
    margins = related_margins(torch.ones(3, 4), 0.1, 0.2)
    assert torch.isfinite(margins).all()
    assert float(margins[0, 1]) == pytest.approx(0.1, abs=0.1)


def test_one_class_has_no_rivals() -> None:
    assert related_margins(torch.ones(1, 4), 0.1, 0.2).tolist() == [[0.0]]


def test_no_margin_is_plain_cross_entropy() -> None:
    cosines, batch = sample()
    loss = margin_cross_entropy(16 * cosines, batch, uniform_margins(5, 0.0), 16.0)
    assert float(loss) == pytest.approx(float(F.cross_entropy(16 * cosines, batch.labels)))


@pytest.mark.parametrize("margin", [-0.3, 0.4])
def test_a_uniform_margin_is_cosface(margin: float) -> None:
    cosines, batch = sample()
    lowered = cosines - margin * F.one_hot(batch.labels, 5)
    loss = margin_cross_entropy(16 * cosines, batch, uniform_margins(5, margin).double(), 16.0)
    assert float(loss) == pytest.approx(float(F.cross_entropy(16 * lowered, batch.labels)))


def test_positive_is_harder_and_negative_easier_and_the_true_class_is_left_alone() -> None:
    cosines, batch = sample()
    losses = [float(margin_cross_entropy(16 * cosines, batch, uniform_margins(5, m), 16.0)) for m in (-0.2, 0.0, 0.2)]
    assert losses == sorted(losses)
    changed = with_margins(16 * cosines, batch.labels, related_margins(torch.randn(5, 3), -0.2, -0.5), 16.0)
    rows = torch.arange(len(cosines))
    assert torch.equal(changed[rows, batch.labels], (16 * cosines)[rows, batch.labels])


def test_a_mixed_image_has_the_rivals_of_both_its_labels() -> None:
    cosines = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
    batch = Mixed(torch.empty(0), torch.tensor([0]), torch.tensor([1]), torch.tensor([0.75], dtype=torch.float64))
    loss = margin_cross_entropy(cosines, batch, uniform_margins(2, 0.2).double(), 1.0)
    one = math.log(1 + math.exp(0.1 + 0.2 - 0.5))
    other = math.log(1 + math.exp(0.5 + 0.2 - 0.1))
    assert float(loss) == pytest.approx(0.75 * one + 0.25 * other)

"""What slow twins of whole losses share: the numbers that were drawn, softmax in loops, gradients side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor


def remember(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Tensor]:
    """What torch.rand or torch.randn gives from here on, call by call."""
    drawn: list[Tensor] = []
    real = getattr(torch, name)

    def remembered(*shape: Any, **rest: Any) -> Tensor:
        drawn.append(real(*shape, **rest))
        return drawn[-1]

    monkeypatch.setattr(torch, name, remembered)
    return drawn


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def surprise(scores: Sequence[Tensor], label: int) -> Tensor:
    """Minus the logarithm of the label's share in the softmax of the scores."""
    largest = max(float(score.detach()) for score in scores)
    total = sum((score - largest).exp() for score in scores)
    assert isinstance(total, Tensor)
    return total.log() + largest - scores[label]


def best(scores: Iterable[Tensor | float]) -> int:
    """Where the largest is; the first of several."""
    values = [score if isinstance(score, float) else float(score.detach()) for score in scores]
    return values.index(max(values))


def same_loss_and_gradients(fast: Tensor, slow: Tensor, parameters: Iterable[Tensor], zero: int = 0) -> None:
    """Both losses, and what they say to every parameter; `zero` of which hear nothing from either."""
    assert float(slow.detach()) == pytest.approx(float(fast.detach()), rel=1e-4)
    given = list(parameters)
    one, two = (torch.autograd.grad(loss, given, allow_unused=True, retain_graph=True) for loss in (fast, slow))
    sizes = [0.0 if expected is None else float(expected.norm()) for expected in two]
    floor = 1e-5 * max(sizes)  # below it there is nothing but rounding
    for got, expected, size in zip(one, two, sizes, strict=True):
        if size < floor:
            assert got is None or float(got.norm()) < 3 * floor
        else:
            assert got is not None
            assert expected is not None
            assert float((got - expected).norm()) <= 2e-3 * size
    assert sum(size < floor for size in sizes) == zero

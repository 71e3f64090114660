"""The losses of YourSelf (paper, section 4.2), each with its gradient; rectified features are (layers, n, d).

The gradients are written out. An update is a chain of small operations, of which autograd makes as many again and more,
and the pairs of a batch (layers, n, n) are its largest tensors: each pass over them that is saved counts.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_ALIGNED = 32  # matrix products whose rows are a multiple of this long take two thirds of the time (1,056 and 1,049)
Judged = tuple[Tensor, Tensor]  # a loss, and its gradient by what was judged


def cosine_constraint(directions: Tensor, final: Tensor, weight: float) -> Judged:
    """1 - cos to the final feature (eq. 10, as a quantity to minimise), summed over branches; of directions."""
    wanted = final * (weight / len(final))
    return weight * len(directions) - (directions * wanted).sum(), -wanted


def class_relation(rectified: Tensor, layer: Tensor, weight: float, reverse: bool = False) -> Judged:
    """KL(prediction of the intermediate layer || rectified prediction), summed over branches; of log-probabilities.

    That is the authors' code; eq. 9 reads the other way round, which `reverse` gives. The gradient is by the logits.
    """
    learned, gap, share = rectified.exp(), rectified - layer, weight / rectified.shape[1]
    if reverse:
        apart = (learned * gap).sum(-1, keepdim=True)
        return share * apart.sum(), share * learned * (gap - apart)
    target = layer.exp()
    return -share * torch.dot(target.flatten(), gap.flatten()), share * (learned - target)


def cross_entropy(log_probabilities: Tensor, labels: Tensor, weight: Tensor) -> Judged:
    """-log p of the labels, weighted by sample and summed over samples and branches (novel classes: eq. 11).

    The gradient is by the logits.
    """
    index = labels.expand(len(log_probabilities), -1)[..., None]
    weights = weight.expand(len(log_probabilities), -1)[..., None]
    gradient = log_probabilities.exp() * weights
    return -(log_probabilities.gather(-1, index) * weights).sum(), gradient.scatter_add_(-1, index, -weights)


def instance_relation(rectified: Tensor, layers: Tensor, labels: Tensor, intra: float, inter: float) -> Judged:
    """Smooth L1 between pairwise distances (eq. 8), averaged apart over pairs of one class and of two classes.

    A distance |x_i - x_j| pulls x_i along (x_i - x_j) / |x_i - x_j|, and every pair is counted both ways: with the pull
    P (symmetric) the gradient of x_i is 2 sum_j P_ij (x_i - x_j), one more matrix product.
    """
    n = len(labels)
    rows = -n % _ALIGNED  # of zeros, which count nothing
    weight = F.pad(_pair_weights(labels, intra, inter), (0, rows, 0, rows))
    x = F.pad(torch.cat([rectified, layers]), (0, 0, 0, rows))
    ours, theirs = _distances(x).chunk(2)
    gap = theirs.sub_(ours)
    pull = gap.clamp(-1, 1)  # the derivative of smooth L1; its value is pull * (gap - pull / 2)
    value = gap.sub_(pull, alpha=0.5)
    pull *= weight
    loss = torch.dot(pull.flatten(), value.flatten())
    pull /= ours
    moved = x[: len(layers)]
    return loss, torch.baddbmm(pull.sum(-1, keepdim=True) * moved, pull, moved, beta=-2, alpha=2)[:, :n]


def through_directions(by_directions: Tensor, directions: Tensor, lengths: Tensor) -> Tensor:
    """A gradient by directions as one by the features: along its own direction only a feature's length changes."""
    along = (by_directions * directions).sum(-1, keepdim=True)
    return (by_directions - directions * along) / lengths


def added(judged: Sequence[Judged]) -> Judged:
    losses, gradients = zip(*judged, strict=True)
    return reduce(torch.add, losses), reduce(torch.add, gradients)


def with_gradient(x: Tensor, judged: Judged) -> Tensor:
    """The loss as something that autograd follows back to x."""
    loss: Tensor = _Judgement.apply(x, *judged)
    return loss


class _Judgement(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None, None


def _pair_weights(labels: Tensor, intra: float, inter: float) -> Tensor:
    """(n, n): what a pair of one class and a pair of two counts; nothing is paired with itself."""
    same = labels[:, None] == labels
    n, alike = len(labels), same.sum()
    of_one, of_two = intra / (alike - n), inter / (n * n - alike)  # where there is none, infinite and of no pair
    return torch.where(same, of_one, of_two).fill_diagonal_(0)


def _distances(x: Tensor) -> Tensor:
    """Euclidean distances (layers, n, n) by one matrix product; the floor keeps what is divided by them finite."""
    squares = (x * x).sum(-1)
    apart = torch.baddbmm(squares[:, None, :], x, x.mT, alpha=-2).add_(squares[..., None])
    return apart.clamp_(min=1e-6).sqrt_()

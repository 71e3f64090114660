"""The losses of YourSelf (paper, section 4.2), each per branch: rectified features are (layers, n, d).

Directions (features of length 1) and log-probabilities are what several losses need, so they are given and not made
here: an update is a chain of tiny operations, and on a GPU each costs the same whatever it computes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def cosine_constraint(rectified: Tensor, final: Tensor) -> Tensor:
    """1 - cos to the final feature (eq. 10, as a quantity to minimise), summed over branches; of directions."""
    return len(rectified) - (rectified * final).sum() / len(final)


def class_relation(rectified: Tensor, layer: Tensor, reverse: bool = False) -> Tensor:
    """KL(prediction of the intermediate layer || rectified prediction), summed over branches; of log-probabilities.

    That is the authors' code; eq. 9 reads the other way round, which `reverse` gives.
    """
    learned, target = (layer, rectified) if reverse else (rectified, layer)
    return F.kl_div(learned, target, log_target=True, reduction="sum") / rectified.shape[1]


def instance_relation(rectified: Tensor, layers: Tensor, labels: Tensor, intra: float, inter: float) -> Tensor:
    """Smooth L1 between pairwise distances (eq. 8), averaged apart over pairs of one class and of two classes."""
    gap = F.smooth_l1_loss(_distances(rectified), _distances(layers), reduction="none")
    same = labels[:, None] == labels[None, :]
    pairs = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    weight = intra * pairs / pairs.sum().clamp(min=1)
    if inter:
        weight = weight + inter * ~same / (~same).sum().clamp(min=1)
    return (gap * weight).sum()


def cross_entropy(log_probabilities: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """-log p of the labels, weighted by sample and summed over samples and branches (novel classes: eq. 11)."""
    index = labels.expand(len(log_probabilities), -1)[..., None]
    return -(log_probabilities.gather(-1, index)[..., 0] * weight).sum()


def _distances(x: Tensor) -> Tensor:
    """Euclidean distances (layers, n, n) by one matrix product; the floor keeps the gradient finite at zero."""
    squares = (x * x).sum(-1)
    products = x @ x.transpose(-1, -2)
    return (squares[..., :, None] + squares[..., None, :] - 2 * products).clamp(min=1e-6).sqrt()

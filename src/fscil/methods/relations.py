"""The losses of YourSelf (paper, section 4.2), each per branch: rectified features are (layers, n, d)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def cosine_constraint(rectified: Tensor, final: Tensor) -> Tensor:
    """1 - cos to the final feature (eq. 10, as a quantity to minimise), summed over branches."""
    return (1 - F.cosine_similarity(rectified, final.expand_as(rectified), dim=-1)).mean(1).sum()


def class_relation(rectified_logits: Tensor, layer_logits: Tensor, reverse: bool = False) -> Tensor:
    """KL(softmax of the intermediate logits || softmax of the rectified logits), summed over branches.

    That is the authors' code; eq. 9 reads the other way round, which `reverse` gives.
    """
    learned, target = F.log_softmax(rectified_logits, dim=-1), F.log_softmax(layer_logits, dim=-1)
    if reverse:
        learned, target = target, learned
    return F.kl_div(learned, target, log_target=True, reduction="none").sum(-1).mean(1).sum()


def instance_relation(rectified: Tensor, layers: Tensor, labels: Tensor, intra: float, inter: float) -> Tensor:
    """Smooth L1 between pairwise distances (eq. 8), averaged apart over pairs of one class and of two classes."""
    gap = F.smooth_l1_loss(_distances(rectified), _distances(layers), reduction="none").sum(0)
    same = labels[:, None] == labels[None, :]
    apart = ~same
    same = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return intra * (gap * same).sum() / same.sum().clamp(min=1) + inter * (gap * apart).sum() / apart.sum().clamp(min=1)


def cross_entropy(logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy over the samples with weight 1 (novel classes: eq. 11), summed over branches."""
    branches, count, classes = logits.shape
    flat = F.cross_entropy(logits.reshape(-1, classes), labels.repeat(branches), reduction="none")
    return (flat.view(branches, count) * weight).sum() / weight.sum().clamp(min=1)


def _distances(x: Tensor) -> Tensor:
    """Euclidean distances (layers, n, n) by one matrix product; the floor keeps the gradient finite at zero."""
    squares = (x * x).sum(-1)
    products = x @ x.transpose(-1, -2)
    return (squares[..., :, None] + squares[..., None, :] - 2 * products).clamp(min=1e-6).sqrt()

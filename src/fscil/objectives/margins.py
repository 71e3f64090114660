"""Margins of cosine classifiers, written one way for all: numbers that are added to the cosines of a class's RIVALS.

A positive margin makes the task harder (rivals look closer than they are), a negative one easier. Softmax does not see
a shift of all logits, so a uniform margin on the rivals is CosFace's margin, taken off the cosine of the true class.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.augment import Mixed
from fscil.objectives.cross_entropy import by_share


def related_margins(weights: Tensor, average: float, alike: float) -> Tensor:
    """Margins by how alike two classes are, from the class vectors (classes, d): CLOM's.

    A pair as similar as the mean pair gets `average`, a pair of equal vectors `alike`, and the rest what the line
    through these two says. Row y holds the margins of the rivals of y; the diagonal is 0.
    """
    count = len(weights)
    unit = F.normalize(weights.detach().float(), dim=-1)
    relation = unit @ unit.T
    apart = 1 - torch.eye(count, device=weights.device)
    mean = (relation * apart).sum() / max(1, count * (count - 1))
    # Where all vectors are the same there is no line; every pair is then an average one.
    return (average + (alike - average) * (relation - mean) / (1 - mean).clamp(min=1e-6)) * apart


def with_margins(logits: Tensor, labels: Tensor, margins: Tensor, scale: float) -> Tensor:
    """Logits (n, classes) = scale * cosine, with the margins (classes, classes) of each label's rivals."""
    return logits + scale * margins[labels]


def margin_cross_entropy(logits: Tensor, batch: Mixed, margins: Tensor, scale: float, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy by the shares of a mixed image; each of its two labels has its own rivals."""

    def losses(labels: Tensor) -> Tensor:
        changed = with_margins(logits, labels, margins, scale)
        return F.cross_entropy(changed, labels, label_smoothing=smoothing, reduction="none")

    return by_share(batch, losses).mean()

"""How much a new class resembles each base class: a softmax over cosines. TEEN and C-FeCAM borrow by these weights."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def kinship(new: Tensor, base: Tensor, temperature: float) -> Tensor:
    """(new, base) rows that sum to 1; the lengths of the vectors do not count."""
    return F.softmax(temperature * F.normalize(new, dim=-1) @ F.normalize(base, dim=-1).T, dim=-1)


def calibrated(new: Tensor, base: Tensor, weights: Tensor, share: float) -> Tensor:
    """Unit prototypes of new classes, moved by `share` towards the unit mix of unit base prototypes."""
    mix = F.normalize(weights @ F.normalize(base, dim=-1), dim=-1)
    return (1 - share) * F.normalize(new, dim=-1) + share * mix

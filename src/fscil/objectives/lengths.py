"""The length of features: attention and tanh mean something else at every scale, and networks differ in theirs."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor


def at_one_length(features: Tensor) -> Tensor:
    """Features with the length sqrt(d), which those of a ViT have already: one learning rate then fits all networks."""
    return math.sqrt(features.shape[-1]) * F.normalize(features, dim=-1)

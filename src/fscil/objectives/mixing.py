"""Shares of mixed images, drawn on the device without rejection: a recorded step cannot try again."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def symmetric_beta(alpha: float, first: Tensor, second: Tensor) -> Tensor:
    """Beta(alpha, alpha) from two uniform numbers (Devroye 1996; see `Augment`)."""
    radius = first ** (1 / alpha)
    cosine = torch.cos(2 * math.pi * second)
    squared = (1 - radius) * cosine.square()
    return 0.5 + 0.5 * cosine.sign() * (squared / (radius + squared).clamp(min=1e-12)).sqrt()

"""Episodes for meta-training on cached features: some classes of the base session and some of their rows, without a loop."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


class ClassRows:
    """Which rows belong to each class, padded to one table, so that an episode takes a few gathers."""

    def __init__(self, labels: Tensor, classes: range) -> None:
        by_class = [torch.nonzero(labels == c).flatten() for c in classes]
        self.table = torch.nn.utils.rnn.pad_sequence(by_class, batch_first=True)
        self.sizes = torch.tensor([len(rows) for rows in by_class], device=labels.device)
        self._padding = torch.arange(self.table.shape[1], device=labels.device) >= self.sizes[:, None]

    def __len__(self) -> int:
        return len(self.sizes)

    def draw(self, classes: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(len(classes), count) rows, all different; a class with fewer rows than that gives its rows again."""
        keys = torch.rand(len(classes), self.table.shape[1], generator=generator, device=self.table.device)
        shuffled = keys.masked_fill(self._padding[classes], 2.0).argsort(1)  # padding last
        places = torch.arange(count, device=self.table.device) % self.sizes[classes, None]
        return self.table[classes].gather(1, shuffled.gather(1, places))


def some_classes(total: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` different classes of `total` in random order; all of them where there are fewer."""
    return torch.rand(total, generator=generator, device=generator.device).argsort()[:count]


def tokens(features: Tensor) -> Tensor:
    """Features with the length sqrt(d), which those of a ViT have already: one learning rate then fits all networks."""
    return math.sqrt(features.shape[-1]) * F.normalize(features, dim=-1)


def halving(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.StepLR:
    """Half the rate after every fifth of the steps, which is CEC's schedule at any length."""
    return torch.optim.lr_scheduler.StepLR(optimizer, max(1, steps // 5), gamma=0.5)

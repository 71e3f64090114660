"""Exponential moving average of the weights: the network that is kept."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeightAverage:
    """Averages parameters (one fused call per step); buffers are taken as they are at the end."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.names = [name for name, _ in model.named_parameters()]
        self.averages = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        # Early on the average must follow quickly, or it would remember the random start.
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.averages, [p.detach() for p in model.parameters()], 1 - decay)

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        for parameter, average in zip(model.parameters(), self.averages, strict=True):
            parameter.copy_(average)

    def state(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.averages, strict=True))

    def load(self, state: dict[str, Tensor]) -> None:
        for name, average in zip(self.names, self.averages, strict=True):
            average.copy_(state[name])

"""Exponential moving average of the weights: the network that is kept."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeightAverage:
    """Averages parameters and float buffers (BatchNorm's statistics must fit the weights), one fused call per step."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        # Detached, and sharing the model's memory: valid as long as the model stays on its device.
        self.values = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
        self.averages = {name: value.clone() for name, value in self.values.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        # Early on the average must follow quickly, or it would remember the random start.
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.averages.values()), list(self.values.values()), 1 - decay)

    @torch.no_grad()
    def copy_to_model(self) -> None:
        for name, average in self.averages.items():
            self.values[name].copy_(average)

    def state(self) -> dict[str, Tensor]:
        return dict(self.averages)

    def load(self, state: dict[str, Tensor]) -> None:
        for name, average in self.averages.items():
            average.copy_(state[name])

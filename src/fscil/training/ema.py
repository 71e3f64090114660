"""Exponential moving average of the weights: the network that is kept."""

import torch
from torch import Tensor, nn


class WeightAverage:
    """Averages parameters and float buffers (BatchNorm's statistics must fit the weights), one fused call per step."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        # Detached, and sharing the model's memory: valid as long as the model stays on its device.
        self.values = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
        self.averages = {name: value.clone() for name, value in self.values.items()}

    def weight(self, step: int) -> float:
        """How much of the weights of this step goes into the average."""
        # Early on the average must follow quickly, or it would remember the random start.
        return 1 - min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, weight: float | Tensor) -> None:
        averages, values = list(self.averages.values()), list(self.values.values())
        if isinstance(weight, Tensor):  # which a recorded step reads anew each time; lerp takes no tensor here
            change = torch._foreach_sub(values, averages)
            torch._foreach_mul_(change, weight)
            torch._foreach_add_(averages, change)
        else:
            torch._foreach_lerp_(averages, values, weight)

    @torch.no_grad()
    def copy_to_model(self) -> None:
        for name, average in self.averages.items():
            self.values[name].copy_(average)

    def load(self, state: dict[str, Tensor]) -> None:
        for name, average in self.averages.items():
            average.copy_(state[name])

"""LARS: steps of SGD, none of them longer than a share of the weights that it moves.

You et al., Large Batch Training of Convolutional Networks, 2017. Its own here, because timm's reads the rate as a
number, which a recorded step on a GPU cannot, before version 1.0.30 or so.
"""

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor


class Lars(torch.optim.Optimizer):
    """A group without weight decay is moved by plain SGD. Rates may be tensors."""

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float, nesterov: bool, trust: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "nesterov": nesterov, "trust": trust, "weight_decay": weight_decay}
        )

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Gradients are those that stand at the parameters; a closure is only there to be called."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(self._direction(parameter, group) * group["lr"])
        return loss

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        direction, momentum, decay = parameter.grad, group["momentum"], group["weight_decay"]
        assert direction is not None
        if decay:
            share = _share(parameter, direction, decay, group["trust"], group["lr"])
            direction = (direction + decay * parameter) * share
        if not momentum:
            return direction
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.clone(direction).detach()
        else:
            state["momentum_buffer"].mul_(momentum).add_(direction)
        moving: Tensor = state["momentum_buffer"]
        return direction + momentum * moving if group["nesterov"] else moving


def _share(parameter: Tensor, gradient: Tensor, decay: float, trust: float, lr: float | Tensor) -> Tensor:
    """Of the gradient, so that the rate times it is at most `trust` times the length of the weights."""
    length, steepness = parameter.norm(), gradient.norm()
    longest = trust * length / (steepness + decay * length + 1e-8)
    # Weights of length 0 would never start, and a gradient of length 0 has no direction.
    longest = torch.where((length > 0) & (steepness > 0), longest, torch.ones_like(longest))
    return (longest / lr).clamp(max=1.0)

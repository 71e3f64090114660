"""A copy of a network that follows it slowly, as the key encoder of MoCo (He et al., CVPR 2020) does."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class MomentumCopy(nn.Module):
    """Starts equal; `follow` moves every parameter by 1 - momentum of the way. No gradient reaches it.

    BatchNorm's running statistics are the copy's own: it runs in training mode, where they are not read.
    """

    def __init__(self, network: nn.Module, momentum: float) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.momentum = momentum

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.network(x)

    @torch.no_grad()
    def follow(self, network: nn.Module) -> None:
        """To be called from `Objective.after_step`: one fused update on the device, which a recorded step can repeat."""
        torch._foreach_lerp_(list(self.network.parameters()), list(network.parameters()), 1 - self.momentum)

"""The feature-rectification (FR) modules of all selected layers, as one batch of small networks (paper, eq. 7).

X_FR = M_mix(cat(M_F(X_final), M_I(X_l))) per layer l. The modules of all layers share every matrix product: a
stack of weights (layers, in, out) is multiplied at once, so more layers cost more arithmetic but not more calls.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class StackedLinear(nn.Module):
    """`stack` linear layers side by side: (stack, n, inputs) -> (stack, n, outputs)."""

    def __init__(self, stack: int, inputs: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)  # as nn.Linear
        self.weight = nn.Parameter((torch.rand(stack, inputs, outputs, generator=generator) * 2 - 1) * bound)
        self.bias = nn.Parameter((torch.rand(stack, 1, outputs, generator=generator) * 2 - 1) * bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class StackedMLP(nn.Module):
    """Linear, GELU, LayerNorm, Linear: the paper's MLP (appendix A2.2), `stack` times."""

    def __init__(self, stack: int, inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = StackedLinear(stack, inputs, hidden, generator)
        self.norm_weight = nn.Parameter(torch.ones(stack, 1, hidden))
        self.norm_bias = nn.Parameter(torch.zeros(stack, 1, hidden))
        self.last = StackedLinear(stack, hidden, outputs, generator)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x))
        x = torch.addcmul(self.norm_bias, F.layer_norm(x, x.shape[-1:]), self.norm_weight)
        return self.last(x)


class Rectifier(nn.Module):
    """FR modules for `layers` layers of width `dim`.

    With `residual`, the module's output is added to the final feature and starts at zero, so that training
    starts from the baseline instead of from noise. Without, it is the paper's form.
    """

    def __init__(self, layers: int, dim: int, residual: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.residual = residual
        self.from_layer = StackedMLP(layers, dim, 2 * dim, dim, generator)
        self.from_final = StackedMLP(layers, dim, 2 * dim, dim, generator)
        self.mix = StackedMLP(layers, 2 * dim, 2 * dim, dim, generator)
        if residual:
            nn.init.zeros_(self.mix.last.weight)
            nn.init.zeros_(self.mix.last.bias)

    def forward(self, final: Tensor, layers: Tensor) -> Tensor:
        """`final` (n, d) and `layers` (L, n, d) -> rectified (L, n, d)."""
        spread = final.expand(len(layers), -1, -1)
        mixed = self.mix(torch.cat([self.from_final(spread), self.from_layer(layers)], dim=-1))
        return spread + mixed if self.residual else mixed

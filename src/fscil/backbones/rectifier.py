"""The feature-rectification (FR) modules of all selected layers, as one batch of small networks (paper, eq. 7).

X_FR = M_mix(cat(M_F(X_final), M_I(X_l))) per layer l. The modules of all layers share every matrix product: a
stack of weights (layers, in, out) is multiplied at once, so more layers cost more arithmetic but not more calls.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class StackedLinear(nn.Module):
    """`stack` linear layers side by side: (stack, n, inputs) -> (stack, n, outputs).

    Where a layer's features are narrower than the others' (`widths`), the rest of its inputs are zeros.
    """

    def __init__(
        self, stack: int, inputs: int, outputs: int, generator: torch.Generator, widths: Sequence[int] = ()
    ) -> None:
        super().__init__()
        read = widths or [inputs] * stack
        bound = torch.tensor([1 / math.sqrt(width) for width in read])[:, None, None]  # as nn.Linear
        self.weight = nn.Parameter((torch.rand(stack, inputs, outputs, generator=generator) * 2 - 1) * bound)
        self.bias = nn.Parameter((torch.rand(stack, 1, outputs, generator=generator) * 2 - 1) * bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class StackedMLP(nn.Module):
    """Linear, GELU, LayerNorm, Linear: the paper's MLP (appendix A2.2), `stack` times."""

    def __init__(
        self,
        stack: int,
        inputs: int,
        hidden: int,
        outputs: int,
        generator: torch.Generator,
        widths: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.first = StackedLinear(stack, inputs, hidden, generator, widths)
        self.norm_weight = nn.Parameter(torch.ones(stack, 1, hidden))
        self.norm_bias = nn.Parameter(torch.zeros(stack, 1, hidden))
        self.last = StackedLinear(stack, hidden, outputs, generator)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x))
        # The norm's scale and shift are put into the matrix that follows, which is smaller than the features are many.
        weight = self.norm_weight.mT * self.last.weight
        bias = torch.baddbmm(self.last.bias, self.norm_bias, self.last.weight)
        return torch.baddbmm(bias, F.layer_norm(x, x.shape[-1:]), weight)

    def stacked_with(self, other: Self) -> Self:
        """These MLPs and then those of `other`, in one stack."""
        both = copy.deepcopy(self)
        for name, parameter in both.named_parameters():
            parameter.data = torch.cat([parameter.data, other.get_parameter(name).data])
        return both


class Rectifier(nn.Module):
    """FR modules for `layers` layers of width `dim`, or of `widths` of their own.

    With `residual`, the module's output is added to the final feature and starts at zero, so that training
    starts from the baseline instead of from noise. Without, it is the paper's form. `hidden` is how wide the MLPs are
    inside; 0: twice as wide as the features, as in the paper.
    """

    def __init__(
        self,
        layers: int,
        dim: int,
        residual: bool,
        generator: torch.Generator,
        widths: Sequence[int] = (),
        hidden: int = 0,
    ) -> None:
        super().__init__()
        self.residual, inside = residual, hidden or 2 * dim
        self.widest = max(widths, default=dim)
        alike = set(widths) <= {dim}
        own = (layers, self.widest, inside, dim, generator, () if alike else widths)
        from_layer = StackedMLP(*own)
        from_final = StackedMLP(layers, dim, inside, dim, generator)
        # M_F of every layer, then M_I: where they read as much, they are one stack, which is half the calls.
        self.read = from_final.stacked_with(from_layer) if alike else from_final
        self.read_layer = None if alike else from_layer
        self.mix = StackedMLP(layers, 2 * dim, inside, dim, generator)
        if residual:
            nn.init.zeros_(self.mix.last.weight)
            nn.init.zeros_(self.mix.last.bias)

    def forward(self, final: Tensor, layers: Tensor) -> Tensor:
        """`final` (n, d) and `layers` (L, n, at least as wide as the widest) -> rectified (L, n, d)."""
        spread = final.expand(len(layers), -1, -1)
        if self.read_layer is None:
            read = self.read(torch.cat([spread, layers])).unflatten(0, (2, len(layers)))
        else:
            read = torch.stack([self.read(spread), self.read_layer(layers[..., : self.widest])])
        mixed = self.mix(read.permute(1, 2, 0, 3).flatten(2))  # per layer: M_F(final) and M_I(layer), concatenated
        return spread + mixed if self.residual else mixed

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Older files hold the two as separate stacks."""
        for name, _ in self.read.named_parameters():
            old = [f"{prefix}{part}.{name}" for part in ("from_final", "from_layer")]
            if all(key in state_dict for key in old):
                state_dict[f"{prefix}read.{name}"] = torch.cat([state_dict.pop(key) for key in old])
        super()._load_from_state_dict(state_dict, prefix, *rest)

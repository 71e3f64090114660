"""A copy of a network that follows it slowly, as the key encoder of MoCo (He et al., CVPR 2020) does."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


class MomentumCopy(nn.Module):
    """Tensors of the copy alone; its structure is borrowed from the network whenever it runs.

    The copy begins at the first `follow`: until then it is the network itself. From then on, every call of `follow`
    moves its parameters by 1 - momentum of the way. No gradient reaches them. BatchNorm's running statistics are the
    copy's own: it runs in training mode, which does not read them.
    """

    started: Tensor

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("started", torch.zeros(()))  # knows the device before there is anything to copy

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            tensors = self._tensors()
            return functional_call(network, tensors, (x,)) if tensors else network(x)

    @torch.no_grad()
    def follow(self, network: nn.Module) -> None:
        """To be called from `Objective.after_step`: one fused update on the device, which a recorded step repeats."""
        if not self._tensors():
            self._begin({name: value.clone() for name, value in network.state_dict().items()})
        own = self._tensors()
        values = dict(network.named_parameters())
        torch._foreach_lerp_([own[name] for name in values], list(values.values()), 1 - self.momentum)

    def _begin(self, tensors: Mapping[str, Tensor]) -> None:
        for name, value in tensors.items():
            self.register_buffer(_buffer(name), value.to(self.started.device))
        self.started.fill_(1)

    def _tensors(self) -> dict[str, Tensor]:
        return {
            _tensor(name): value for name, value in self._buffers.items() if name != "started" and value is not None
        }

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        # A training that continues has no copy yet, and its state has one.
        held = {name.removeprefix(prefix): value for name, value in state_dict.items() if name.startswith(prefix)}
        missing = {_tensor(name): value for name, value in held.items() if name not in self._buffers}
        if missing:
            self._begin(missing)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _buffer(name: str) -> str:
    return name.replace(".", "/")  # a buffer's name has no dots


def _tensor(name: str) -> str:
    return name.replace("/", ".")

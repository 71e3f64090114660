"""The first layers of a network, which a training leaves as they are: weights, statistics, nothing dropped.

A pretrained network that is trained on the base classes as a whole forgets what tells new ones apart.
"""

from collections.abc import Iterator

from torch import nn

from fscil.backbones import Backbone


class FrozenLayers:
    """`count` layers (blocks, stages) and what stands before them; 0: nothing."""

    def __init__(self, backbone: Backbone, count: int) -> None:
        self.modules = list(_until(backbone.layer_module(count), backbone)) if count else []
        for module in self.modules:
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad_(False)

    def rest(self) -> None:
        """Asked after the network was put into training mode."""
        for module in self.modules:
            if not any(module.children()):  # what holds others may hold some that are trained
                module.eval()


def _until(last: nn.Module, network: nn.Module) -> Iterator[nn.Module]:
    """Modules in the order in which they are registered, which in these networks is that of the pass."""
    inside, reached = set(last.modules()), False
    for module in network.modules():
        if reached and module not in inside:
            return
        reached = reached or module is last
        yield module

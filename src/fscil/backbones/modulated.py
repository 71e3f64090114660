"""A network whose activations are gated by a second one of its kind, which is gated by the first in turn.

Bi-directional guided modulation after Chi et al. (MetaFSCIL, CVPR 2022), small: where a known reimplementation has 422
million weights to translate whole kernels, gates here have a number for each channel, and a translator few in between.
"""

import copy
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fscil.backbones.base import Backbone
from fscil.core.errors import InputError

OPEN = 3.0  # what a gate starts at before the sigmoid: 0.95


class Passage(nn.Module):
    """What a network holds before each of its stages and, last, its features; times gates where there are any."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor, gates: Sequence[Tensor] | None = None) -> list[Tensor]:
        """Of normalised images."""
        inner, found = self.backbone.enter(images), []
        for number, stage in enumerate(self.backbone.row()):
            found.append(inner if gates is None else inner * gates[number])
            inner = stage(found[-1])
        features = self.backbone.forward_from(inner, self.backbone.stages)
        return [*found, features if gates is None else features * gates[-1]]


class Modulation(nn.Module):
    """The second network, `branch`, what makes gates of its activations, and gates for it of the first's weights."""

    def __init__(self, backbone: Backbone, rank: int) -> None:
        super().__init__()
        self.branch = copy.deepcopy(backbone).eval().requires_grad_()
        size = self.branch.image_size
        with torch.no_grad():
            held = Passage(self.branch)(torch.zeros(1, 3, size, size, device=backbone.mean.device))
        # By the numbers of one image alone, and with a factor and an offset for every channel.
        self.norms = nn.ModuleList(nn.GroupNorm(1, channels_first(inner).shape[1]) for inner in held)
        for norm in self.norms:
            nn.init.constant_(cast(nn.GroupNorm, norm).bias, OPEN)
        widths = [len(weight) for weight in first_matrices(self.branch).values()]
        self.translators = nn.ModuleList(translator(width, rank) for width in widths)

    def kernel_gates(self, main: Backbone) -> list[Tensor]:
        """For the first matrix of each stage of the branch: a number for each of its outputs."""
        gates = []
        for translate, weight in zip(self.translators, first_matrices(main).values(), strict=True):
            means = weight.flatten(1).mean(1)
            gates.append(torch.sigmoid(translate(F.layer_norm(means, means.shape))))
        return gates

    def gates(self, main: Backbone, images: Tensor) -> list[Tensor]:
        """For what the network holds of normalised images before each stage, and for its features."""
        own = first_matrices(self.branch)
        gated = {
            f"backbone.{name}": weight * gate.view(-1, *[1] * (weight.ndim - 1))
            for (name, weight), gate in zip(own.items(), self.kernel_gates(main), strict=True)
        }
        held = functional_call(Passage(self.branch), gated, (images,))
        return [
            channels_first(torch.sigmoid(norm(channels_first(inner))))
            for norm, inner in zip(self.norms, held, strict=True)
        ]


class Modulated(Backbone):
    """The network `main` as the modulation lets it through; without one, as it is."""

    def __init__(self, main: Backbone, modulation: Modulation | None) -> None:
        super().__init__(main.image_size, main.dim, depth=0)
        self.main, self.modulation = main, modulation
        self.mean, self.std = main.mean, main.std
        self.test_zoom, self.test_mirror = main.test_zoom, main.test_mirror
        self.training = main.training  # of this alone: the parts are as they are

    def forward_normalised(self, images: Tensor) -> Tensor:
        if self.modulation is None:
            return self.main.forward_normalised(images)
        return Passage(self.main)(images, self.modulation.gates(self.main, images))[-1]

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        if blocks:
            raise InputError("A modulated network gives no intermediate features; take a method that needs none.")
        return self(images), {}


def translator(width: int, rank: int) -> nn.Sequential:
    made = nn.Sequential(nn.Linear(width, rank), nn.ReLU(), nn.Linear(rank, width))
    nn.init.constant_(cast(nn.Linear, made[2]).bias, OPEN)
    return made


def first_matrices(backbone: Backbone) -> dict[str, Tensor]:
    """The first convolution or linear map of each stage, by name."""
    names = {id(part): name for name, part in backbone.named_modules()}
    kinds = nn.Conv2d | nn.Linear
    firsts = [next(part for part in stage.modules() if isinstance(part, kinds)) for stage in backbone.row()]
    return {f"{names[id(part)]}.weight": part.weight for part in firsts}


def channels_first(inner: Tensor) -> Tensor:
    """Tokens (n, tokens, channels) as maps have them, or back; maps and features stay."""
    return inner.mT if inner.ndim == 3 else inner

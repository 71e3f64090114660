"""ResNet-12 as NC-FSCIL trains it from scratch (Yang et al., ICLR 2023): the CNN that teaches the ViT.

Four blocks of three 3x3 convolutions, 64, 160, 320 and 640 wide, each with a 1x1 shortcut and a 2x2 max-pool; no stem.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones.base import Backbone
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError

WIDTHS = (64, 160, 320, 640)


class Block(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        sizes = [inputs, width, width]
        self.convolutions = nn.ModuleList(nn.Conv2d(size, width, 3, padding=1, bias=False) for size in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in sizes)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        skipped = self.shortcut(x)
        for place, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = norm(convolution(x))
            if place < 2:
                x = F.leaky_relu(x, 0.1)
        return F.max_pool2d(F.leaky_relu(x + skipped, 0.1), 2)


class ResNet12(Backbone):
    """640 features, the mean over the last map. Gives no intermediate features: its blocks differ in width."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config.image_size, WIDTHS[-1], depth=0)
        if config.image_size < 16:
            raise InputError(
                f"ResNet-12 halves its input four times; backbone.image_size {config.image_size} is below 16."
            )
        self.stages = len(WIDTHS)
        self.blocks = nn.Sequential(*[Block(a, b) for a, b in zip((3, *WIDTHS), WIDTHS, strict=False)])
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=0.1, mode="fan_out", nonlinearity="leaky_relu")

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(self.prepare(images)).mean((2, 3))

    def forward_until(self, images: Tensor, stage: int) -> Tensor:
        return self.blocks[: self.checked(stage)](self.prepare(images))

    def forward_from(self, inner: Tensor, stage: int) -> Tensor:
        return self.blocks[self.checked(stage) :](inner).mean((2, 3))

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        if blocks:
            raise InputError("ResNet-12 gives no intermediate features; take a method that needs none, or a ViT.")
        return self(images), {}

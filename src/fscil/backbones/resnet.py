"""ResNet-18 and ResNet-20, the networks that most few-shot class-incremental methods were published with.

- ResNet-20: three stages, 16, 32 and 64 wide, as CEC and all who build on its code take it for CIFAR-100. The published
  features are those after the last ReLU, and the shortcuts between stages are 1x1 convolutions.
- ResNet-18: four stages, 64 to 512 wide; with a 3x3 stem for small images (ALICE on CIFAR-100), or with ImageNet's 7x7
  stem and max-pool (`backbone.stem=imagenet`: CEC, FACT and others on miniImageNet and CUB-200).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones.base import Backbone
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError


class Block(nn.Module):
    """Two 3x3 convolutions around an identity, or around a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(Backbone):
    """Features are the mean over the last map, never negative. No intermediate ones: the stages differ in width."""

    def __init__(self, config: BackboneConfig, name: str, stem: nn.Sequential, widths: Sequence[int], blocks: int):
        super().__init__(config.image_size, widths[-1], depth=0)
        if config.pretrained or config.name:
            raise InputError(f"{name} is trained from scratch here; leave backbone.name and backbone.pretrained away.")
        self.title, self.stages = name, len(widths)
        self.stem = stem
        inputs = widths[0]
        stages = []
        for place, width in enumerate(widths):
            # The first block of a stage halves the map, except in the first stage.
            first = Block(inputs, width, stride=2 if place else 1)
            stages.append(nn.Sequential(first, *[Block(width, width, stride=1) for _ in range(blocks - 1)]))
            inputs = width
        self.trunk = nn.Sequential(*stages)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward_until(self, images: Tensor, stage: int) -> Tensor:
        return self.trunk[: self.checked(stage)](self.stem(self.prepare(images)))

    def forward_from(self, inner: Tensor, stage: int) -> Tensor:
        return self.trunk[self.checked(stage) :](inner).mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_from(self.forward_until(images, 0), 0)

    def forward_as_is(self, images: Tensor) -> Tensor:
        return self.forward_from(self.stem(self.normalise(images)), 0)

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        if blocks:
            raise InputError(f"{self.title} gives no intermediate features; take a method that needs none, or a ViT.")
        return self(images), {}


def resnet20(config: BackboneConfig) -> ResNet:
    return ResNet(config, "ResNet-20", _stem(16), (16, 32, 64), blocks=3)


def resnet18(config: BackboneConfig) -> ResNet:
    if config.stem == "imagenet":
        stem = _stem(64, kernel=7, stride=2)
        stem.append(nn.MaxPool2d(3, stride=2, padding=1))
    else:
        stem = _stem(64)
    return ResNet(config, "ResNet-18", stem, (64, 128, 256, 512), blocks=2)


def _stem(width: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(3, width, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU())

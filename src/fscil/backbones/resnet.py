"""ResNet-12, ResNet-18 and ResNet-20, the networks that most few-shot class-incremental methods were published with.

- ResNet-12: four blocks of three 3x3 convolutions, 64, 160, 320 and 640 wide, each with a 1x1 shortcut and a 2x2
  max-pool; no stem. As NC-FSCIL trains it from scratch (Yang et al., ICLR 2023): the CNN that teaches the ViT.
- ResNet-20: three stages, 16, 32 and 64 wide, as CEC and all who build on its code take it for CIFAR-100. The published
  features are those after the last ReLU (before it with `backbone.signed`, as others have them), and the shortcuts
  between stages are 1x1 convolutions.
- ResNet-18: four stages, 64 to 512 wide; with a 3x3 stem for small images (ALICE on CIFAR-100), or with ImageNet's 7x7
  stem and max-pool (`backbone.stem=imagenet`: CEC, FACT and others on miniImageNet and CUB-200).
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones.base import Backbone, check_block
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around an identity, or around a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int, signed: bool = False) -> None:
        super().__init__()
        self.signed = signed  # the sum leaves without a ReLU
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        summed = self.norm2(self.conv2(y)) + self.shortcut(x)
        return summed if self.signed else F.relu(summed)


class WideBlock(nn.Module):
    """Three 3x3 convolutions around a 1x1 one, then a 2x2 max-pool."""

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


class ConvNet(Backbone):
    """Stages in a row; features are the mean over the last map. No intermediate ones: the stages differ in width."""

    def __init__(self, config: BackboneConfig, title: str, widths: Sequence[int]) -> None:
        super().__init__(config.image_size, widths[-1], depth=0)
        if config.pretrained or config.name:
            raise InputError(f"{title} is trained from scratch here; do not set backbone.name or backbone.pretrained.")
        self.title, self.stages = title, len(widths)

    @abstractmethod
    def row(self) -> nn.Sequential:
        """The stages. Their attribute has another name in each class, and stored networks know it by that."""

    def enter(self, images: Tensor) -> Tensor:
        return images

    def forward_normalised(self, images: Tensor) -> Tensor:
        return self.forward_from(self.enter(images), 0)

    def forward_until(self, images: Tensor, stage: int) -> Tensor:
        return self.row()[: self.checked(stage)](self.enter(self.prepare(images)))

    def forward_from(self, inner: Tensor, stage: int) -> Tensor:
        return self.row()[self.checked(stage) :](inner).mean((2, 3))

    def last_block(self) -> nn.Module:
        last = self.last_stage()
        return last[-1] if isinstance(last, nn.Sequential) else last

    def last_stage(self) -> nn.Module:
        return self.row()[-1]

    def layer_module(self, layer: int) -> nn.Module:
        check_block(layer, self.stages)
        return self.row()[layer - 1]

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        if blocks:
            raise InputError(f"{self.title} gives no intermediate features; take a method that needs none, or a ViT.")
        return self(images), {}

    def _first_weights(self, slope: float, nonlinearity: Literal["relu", "leaky_relu"]) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=slope, mode="fan_out", nonlinearity=nonlinearity)


class ResNet12(ConvNet):
    """640 features."""

    WIDTHS = (64, 160, 320, 640)

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config, "ResNet-12", self.WIDTHS)
        if config.image_size < 16:
            raise InputError(
                f"ResNet-12 halves its input four times; backbone.image_size {config.image_size} is below 16."
            )
        pairs = zip((3, *self.WIDTHS), self.WIDTHS, strict=False)
        self.blocks = nn.Sequential(*[WideBlock(inputs, width) for inputs, width in pairs])
        if config.start == "normal":
            self._first_weights(0.1, "leaky_relu")

    def row(self) -> nn.Sequential:
        return self.blocks


class ResNet(ConvNet):
    """Features are never negative, unless `signed`: the last block then has no ReLU."""

    def __init__(self, config: BackboneConfig, title: str, stem: nn.Sequential, widths: Sequence[int], blocks: int):
        super().__init__(config, title, widths)
        self.stem = stem
        inputs = widths[0]
        stages = []
        for place, width in enumerate(widths):
            # The first block of a stage halves the map, except in the first stage.
            first = BasicBlock(inputs, width, stride=2 if place else 1)
            ends = [config.signed and place == len(widths) - 1 and after == blocks - 1 for after in range(1, blocks)]
            stages.append(nn.Sequential(first, *[BasicBlock(width, width, stride=1, signed=end) for end in ends]))
            inputs = width
        self.trunk = nn.Sequential(*stages)
        if config.start == "normal":
            self._first_weights(0.0, "relu")

    def row(self) -> nn.Sequential:
        return self.trunk

    def enter(self, images: Tensor) -> Tensor:
        return self.stem(images)

    def forward_as_is(self, images: Tensor) -> Tensor:
        return self.forward_normalised(self.normalise(images))


def resnet20(config: BackboneConfig) -> ResNet:
    return ResNet(config, "ResNet-20", _stem(16), (16, 32, 64), blocks=3)


def resnet18(config: BackboneConfig) -> ResNet:
    if config.stem == "imagenet":
        stem = _stem(64, kernel=7, stride=2).append(nn.MaxPool2d(3, stride=2, padding=1))
    else:
        stem = _stem(64)
    return ResNet(config, "ResNet-18", stem, (64, 128, 256, 512), blocks=2)


def _stem(width: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(3, width, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU())

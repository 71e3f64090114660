"""EfficientNet-Lite (Tan and Liu 2020) with the ImageNet weights of `core.weights_packages`.

Written out here, since timm, which has the same network, takes longer to import than torch: a prediction waits for it.
"""

import io
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.errors import InputError
from fscil.core.weights_packages import WeightsPackage

# What the weights were trained with; timm says the same of its own copy of them.
MEAN = STD = 0.5
_SCALES = {
    "tf_efficientnet_lite0": (1.0, 1.0),
    "tf_efficientnet_lite1": (1.0, 1.1),
    "tf_efficientnet_lite2": (1.1, 1.2),
}
# Kernel, stride, expansion, channels, blocks; the first and the last stage are not made deeper.
_STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
_STEM, _HEAD, _IMAGENET = 32, 1280, 1000


def load_lite(weights: WeightsPackage, classifier: bool = False) -> nn.Module:
    """The network, filled; without `classifier` it gives pooled features."""
    model = EfficientNetLite(*_SCALES[weights.network])
    fill(model, weights)
    if not classifier:
        model.classifier = nn.Identity()
    return model


def fill(model: nn.Module, weights: WeightsPackage) -> None:
    """Put the weights into this network or into timm's, with its classifier.

    The file names layers otherwise than either, and lists them in the same order.
    """
    content = weights.content()  # hashed before anything reads it
    stored = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    own = model.state_dict()
    if [tensor.shape for tensor in stored.values()] != [tensor.shape for tensor in own.values()]:
        raise InputError(f"The weights of {weights.package} are of another network than {weights.network}.")
    model.load_state_dict(dict(zip(own, stored.values(), strict=True)))


class EfficientNetLite(nn.Module):
    """Without squeeze-and-excitation, with ReLU6; padded as TensorFlow does."""

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self.stem = _Convolution(3, _STEM, 3, stride=2)
        blocks: list[nn.Module] = []
        channels = _STEM
        for number, (kernel, stride, expansion, wide, count) in enumerate(_STAGES):
            inner = 0 < number < len(_STAGES) - 1
            for repeat in range(math.ceil(count * depth) if inner else count):
                after = _divisible(wide * width)
                blocks.append(_Block(channels, after, kernel, stride if repeat == 0 else 1, expansion))
                channels = after
        self.blocks = nn.Sequential(*blocks)
        self.head = _Convolution(channels, _HEAD, 1)
        self.classifier: nn.Module = nn.Linear(_HEAD, _IMAGENET)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.head(self.blocks(self.stem(images))).mean((2, 3)))


class _Block(nn.Module):
    """Widen, filter each channel by itself, narrow; added to what came in where it has the same shape."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        widen = [_Convolution(before, wide, 1)] if expansion > 1 else []
        filtered = _Convolution(wide, wide, kernel, stride, groups=wide)
        self.layers = nn.Sequential(*widen, filtered, _Convolution(wide, after, 1, active=False))
        self.added = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.added else self.layers(x)


class _Convolution(nn.Module):
    def __init__(
        self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1, active: bool = True
    ) -> None:
        super().__init__()
        self.filter = nn.Conv2d(before, after, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(after, eps=1e-3)
        self.kernel, self.stride, self.active = kernel, stride, active

    def forward(self, x: Tensor) -> Tensor:
        (top, bottom), (left, right) = (self._missing(side) for side in x.shape[2:])
        if top or bottom or left or right:
            x = F.pad(x, (left, right, top, bottom))
        x = self.norm(self.filter(x))
        return F.relu6(x) if self.active else x

    def _missing(self, side: int) -> tuple[int, int]:
        """As much as gives side / stride positions, rounded up; the odd pixel after the image."""
        missing = max((math.ceil(side / self.stride) - 1) * self.stride + self.kernel - side, 0)
        return missing // 2, missing - missing // 2


def _divisible(channels: float) -> int:
    """The nearest multiple of eight that is not below nine tenths."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found

"""What every network here offers: pixels in, features out, with its own input normalisation.

The normalisation travels with the weights, so a checkpoint is all that is needed to turn uint8 pixels into features.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.errors import InputError
from fscil.core.pretraining import NONE


class Backbone(nn.Module, ABC):
    """Input is uint8 (n, h, w, 3) or float (n, 3, h, w) in 0..1."""

    mean: Tensor
    std: Tensor
    pretraining = NONE  # what its first weights had learned
    narrow_layers = False  # so narrow that all may be stored where any is asked for

    def __init__(self, image_size: int, dim: int, depth: int) -> None:
        super().__init__()
        self.image_size, self.dim = image_size, dim
        # See BackboneConfig; no weights, so `build_backbone` sets them.
        self.test_zoom, self.test_mirror = 1.0, False
        self.depth = depth  # blocks whose features are available; 0: none
        self.stages = depth  # places where a forward pass can be cut in two; a subclass may set it anew
        self.register_buffer("mean", torch.full((3, 1, 1), 0.5))
        self.register_buffer("std", torch.full((3, 1, 1), 0.25))

    def measure_pixels(self, images: Tensor) -> None:
        """Set the input normalisation from uint8 training images (n, h, w, 3)."""
        # By how often each of the 256 values comes: exact, and 3,000 photographs of 224 pixels need no gigabytes.
        values = torch.arange(256, dtype=torch.float64) / 255
        for channel in range(3):
            counts = torch.bincount(images[..., channel].flatten().cpu(), minlength=256).double()
            mean = (counts * values).sum() / counts.sum()
            variance = (counts * (values - mean).square()).sum() / (counts.sum() - 1)
            self.mean[channel], self.std[channel] = mean, variance.sqrt().clamp(min=1e-3)

    def prepare(self, images: Tensor) -> Tensor:
        """Pixels as the network wants them: float, channels first, resized, normalised."""
        if images.dtype == torch.uint8:
            images = images.permute(0, 3, 1, 2).to(self.mean.dtype) / 255
        side = self.image_size if self.training else round(self.image_size * self.test_zoom)
        if images.shape[-1] != side or images.shape[-2] != side:
            images = F.interpolate(images, (side, side), mode="bicubic", align_corners=False)
        if side > self.image_size:
            start = (side - self.image_size) // 2
            images = images[:, :, start : start + self.image_size, start : start + self.image_size]
        return self.normalise(images)

    def normalise(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def forward(self, images: Tensor) -> Tensor:
        """Final features (n, dim)."""
        return self.forward_normalised(self.prepare(images))

    @abstractmethod
    def forward_normalised(self, images: Tensor) -> Tensor:
        """Final features of float images of the network's size that are normalised already, as a generator's may be."""

    def forward_as_is(self, images: Tensor) -> Tensor:
        """Final features of float images in the size they have, which only some networks can take."""
        raise InputError(
            f"{type(self).__name__} takes images of one size only; set train.objective_options.small_side to 1."
        )

    def forward_until(self, images: Tensor, stage: int) -> Tensor:
        """What the network holds after `stage` (0: before the first), of any shape: for mixing inside the network."""
        raise self._whole()

    def forward_from(self, inner: Tensor, stage: int) -> Tensor:
        """Final features (n, dim) from what `forward_until` gave for the same stage."""
        raise self._whole()

    def enter(self, images: Tensor) -> Tensor:
        """What the first stage takes, of prepared images."""
        raise self._whole()

    def row(self) -> nn.Sequential:
        """The stages. What the last one gives goes into `forward_from(inner, stages)`."""
        raise self._whole()

    def last_block(self) -> nn.Module:
        """The last residual block, which lies behind stage `stages - 1`: what is tuned where the rest stays."""
        raise InputError(f"{type(self).__name__} has no last block of its own; take a network of one kind.")

    def last_stage(self) -> nn.Module:
        """All that lies behind stage `stages - 1`, which in a ResNet are several blocks."""
        return self.last_block()

    def _whole(self) -> InputError:
        return InputError(f"{type(self).__name__} has no stages to be cut at; take a network of one kind.")

    def layer_module(self, layer: int) -> nn.Module:
        """The module that layer `layer` (1-based; in a ResNet a stage) ends with; what stands before, works before."""
        raise InputError(f"{type(self).__name__} has no layers to freeze; leave out train.frozen_layers.")

    def checked(self, stage: int) -> int:
        if not 0 <= stage <= self.stages:
            raise InputError(f"Stage {stage} does not exist: the network can be cut after stages 0 to {self.stages}.")
        return stage

    @abstractmethod
    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Final features, and those after each of `blocks` (1-based)."""


def check_block(block: int, depth: int) -> None:
    if not 1 <= block <= depth:
        raise InputError(f"Block {block} does not exist: the network has blocks 1 to {depth}.")

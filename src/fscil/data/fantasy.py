"""Fixed transforms that turn one class into others: quarter turns and cyclic shifts of the colour channels.

A class seen upside down is a class of its own: training tells (class, transform) pairs apart, and a test image is
scored in every transform. Transform j of class y has the label y + classes * j, as `augment.turn` counts too.
"""

import torch
from torch import Tensor

from fscil.core.errors import InputError

Transform = tuple[int, int]  # (quarter turns, channel shifts)

FANTASIES: dict[int, tuple[Transform, ...]] = {  # by how many they are, the identity first
    1: ((0, 0),),
    2: ((0, 0), (2, 0)),  # half turns
    4: tuple((turns, 0) for turns in range(4)),
    12: tuple((turns, shifts) for turns in range(4) for shifts in range(3)),
}


def transformed(images: Tensor, transform: Transform) -> Tensor:
    """Images as uint8 (n, h, w, 3) or float (n, 3, h, w), turned the way `augment.turn` turns them."""
    turns, shifts = transform
    last = images.dtype == torch.uint8  # where the channels are, as everywhere in this package
    if turns % 4:
        images = images.rot90(turns, (1, 2) if last else (2, 3))
    return images.roll(-shifts, 3 if last else 1) if shifts else images


def expand(images: Tensor, labels: Tensor, transforms: tuple[Transform, ...], classes: int) -> tuple[Tensor, Tensor]:
    """Every image in every transform, those of one image side by side, with their joint labels."""
    offsets = classes * torch.arange(len(transforms), device=labels.device)
    return _all(images, transforms).flatten(0, 1), (labels[:, None] + offsets).flatten()


def select(images: Tensor, transforms: tuple[Transform, ...], choice: Tensor) -> Tensor:
    """Image i in transform choice[i]."""
    return _all(images, transforms)[torch.arange(len(images), device=images.device), choice]


def _all(images: Tensor, transforms: tuple[Transform, ...]) -> Tensor:
    """(n, transforms, ...)."""
    if images.shape[-1] != images.shape[-2] and any(turns % 2 for turns, _ in transforms):
        raise InputError("Quarter turns in training need square images; resize them first, or take half turns.")
    return torch.stack([transformed(images, transform) for transform in transforms], 1)

"""Changes of colour that augmentations share; images are (n, 3, h, w) in 0..1, each with its own strength."""

import torch
from torch import Tensor


def blend(images: Tensor, others: Tensor, share: Tensor) -> Tensor:
    """`share` (n,) parts of the images, the rest of others; more than one part leads away from those."""
    return others + (images - others) * share[:, None, None, None]


def recolour(images: Tensor, brightness: Tensor | None, contrast: Tensor | None, saturation: Tensor | None) -> Tensor:
    """Each by factors (n,), None for as it is: blends with black, with the mean of the image, with its greys."""
    if brightness is not None:
        images = blend(images, torch.zeros_like(images), brightness)
    if contrast is not None:
        images = blend(images, images.mean((1, 2, 3), keepdim=True), contrast)
    if saturation is not None:
        images = blend(images, images.mean(1, keepdim=True), saturation)
    return images

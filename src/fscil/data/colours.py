"""Changes of colour that augmentations share; images are (n, 3, h, w) in 0..1, each with its own strength."""

from collections.abc import Callable

import torch
from torch import Tensor


def blend(images: Tensor, others: Tensor, share: Tensor) -> Tensor:
    """`share` (n,) parts of the images, the rest of others; more than one part leads away from those."""
    return (others + (images - others) * share[:, None, None, None]).clamp(0, 1)


def greys(images: Tensor) -> Tensor:
    """(n, 1, h, w): how bright a colour looks, as PIL and torchvision weigh it."""
    red, green, blue = images.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue)[:, None]


def brighten(images: Tensor, factor: Tensor) -> Tensor:
    return blend(images, torch.zeros_like(images), factor)


def add_contrast(images: Tensor, factor: Tensor) -> Tensor:
    return blend(images, greys(images).mean((1, 2, 3), keepdim=True), factor)


def saturate(images: Tensor, factor: Tensor) -> Tensor:
    return blend(images, greys(images), factor)


def shift_hue(images: Tensor, circles: Tensor) -> Tensor:
    """Every colour moved on by a part (n,) of the circle of colours; its lightest and darkest channel keep values."""
    high, low = images.amax(1), images.amin(1)
    chroma, (red, green, blue) = high - low, images.unbind(1)
    apart = torch.where(chroma > 0, chroma, 1)  # shades of grey have no hue to move
    sixths = torch.where(high == green, 2 + (blue - red) / apart, 4 + (red - green) / apart)
    sixths = torch.where(high == red, (green - blue) / apart, sixths) + 6 * circles[:, None, None]
    # A channel is at the top for a third of the circle, at the bottom for a third, and on the way in between.
    place = torch.stack([(start + sixths) % 6 for start in (5, 3, 1)], 1)
    return high[:, None] - chroma[:, None] * torch.minimum(place, 4 - place).clamp(0, 1)


CHANGES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (brighten, add_contrast, saturate, shift_hue)


def recolour(images: Tensor, *amounts: Tensor | None, order: Tensor | None = None) -> Tensor:
    """Brightness, contrast and saturation by factors (n,), and hue by a shift (n,); None leaves one as it is.

    `order` (n, changes made): image i has change order[i, 0] first, counted among those that are made. Without it
    they come in the order of the arguments.
    """
    made = [(change, amount) for change, amount in zip(CHANGES, amounts, strict=False) if amount is not None]
    for place in range(len(made)):
        if order is None:
            change, amount = made[place]
            images = change(images, amount)
            continue
        for number, (change, amount) in enumerate(made):
            here = (order[:, place] == number)[:, None, None, None]
            images = torch.where(here, change(images, amount), images)
    return images

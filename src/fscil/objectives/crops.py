"""Random crops as SAVC contrasts them: cut from images as they are, brought to one size, mirrored at random."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

TRIES = 10  # draws of a shape until one fits into the image; after that it is the whole image
RATIO = 4 / 3  # of a crop's sides at most


def random_crops(images: Tensor, smallest: float, largest: float, pixels: float, flip: float) -> Tensor:
    """A crop of each image (n, 3, h, w) with a random share of its area, as `pixels` of the full side.

    Shapes are drawn as torchvision's RandomResizedCrop draws them, without rounding to whole pixels.
    """
    count, device = len(images), images.device
    side = _sides(torch.rand(2, count, TRIES, device=device), smallest, largest)
    shift = (2 * torch.rand(count, 2, device=device) - 1) * (1 - side)
    sign = torch.where(torch.rand(count, 1, device=device) < flip, -1.0, 1.0)
    zero = torch.zeros_like(sign)
    rows = [
        torch.cat([side[:, :1] * sign, zero, shift[:, :1]], 1),
        torch.cat([zero, side[:, 1:], shift[:, 1:]], 1),
    ]
    shape = [count, 3, *(round(pixels * size) for size in images.shape[2:])]
    with torch.autocast(device.type, enabled=False):  # places of pixels have more digits than half precision holds
        grid = F.affine_grid(torch.stack(rows, 1), shape, align_corners=False)
        return F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)


def _sides(numbers: Tensor, smallest: float, largest: float) -> Tensor:
    """Width and height (n, 2), as shares of the image's, of the first shape that fits: from numbers (2, n, tries)."""
    area = smallest + (largest - smallest) * numbers[0]
    ratio = torch.exp((2 * numbers[1] - 1) * math.log(RATIO))
    sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], 2)
    fits = (sides <= 1).all(2)
    first = fits.int().argmax(1)[:, None, None].expand(-1, 1, 2)
    return torch.where(fits.any(1, keepdim=True), sides.gather(1, first)[:, 0], 1.0)

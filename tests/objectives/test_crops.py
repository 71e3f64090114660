"""Random crops against torchvision's own draw of shapes, and by the geometry of a ramp."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torchvision.transforms import RandomResizedCrop

from fscil.objectives.crops import random_crops

RAMP = torch.linspace(-1, 1, 32 + 1)
RAMP = (RAMP[1:] + RAMP[:-1]) / 2  # centres of pixels, the border of the image at -1 and 1


def boxes(count: int, smallest: float, largest: float, flip: float = 0.0, pixels: float = 1.0) -> np.ndarray:
    """What crops show of the image, (count, 2, 2): begin and end along x and y in 0..1, from images of ramps."""
    torch.manual_seed(0)
    image = torch.stack([RAMP.expand(32, 32), RAMP[:, None].expand(32, 32), torch.zeros(32, 32)])
    found = []
    for _ in range(count // 500):
        crops = random_crops(image.expand(500, -1, -1, -1), smallest, largest, pixels, flip).double()
        side, ends = crops.shape[-1], []
        for line in (crops[:, 0, 0], crops[:, 1, :, 0]):
            middle, step = (line[:, 1] + line[:, -2]) / 2, (line[:, -2] - line[:, 1]) / (side - 3)
            ends.append(torch.stack([middle - step * side / 2, middle + step * side / 2], 1))
        found.append(torch.stack(ends, 1))
    return ((torch.cat(found) + 1) / 2).numpy()


@pytest.mark.parametrize(("smallest", "largest"), [(0.2, 0.7), (0.9, 1.0), (0.08, 1.0)])
def test_shapes_and_places_as_torchvision_draws_them(smallest: float, largest: float) -> None:
    ours = boxes(2000, smallest, largest)
    torch.manual_seed(1)
    image = torch.zeros(1, 4096, 4096)  # large, so that whole pixels do not matter
    theirs = np.array([RandomResizedCrop.get_params(image, [smallest, largest], [3 / 4, 4 / 3]) for _ in range(2000)])
    top, left, height, width = theirs.T / 4096
    assert ours.min() > -1e-4
    assert ours.max() < 1 + 1e-4
    for mine, other in (
        (ours[:, 0, 1] - ours[:, 0, 0], width),
        (ours[:, 1, 1] - ours[:, 1, 0], height),
        (ours[:, 0, 0], left),
        (ours[:, 1, 0], top),
        ((ours[:, 0, 1] - ours[:, 0, 0]) * (ours[:, 1, 1] - ours[:, 1, 0]), width * height),
    ):
        assert stats.ks_2samp(mine.round(3), other.round(3)).pvalue > 1e-3


def test_half_of_them_are_mirrored() -> None:
    mirrored = boxes(2000, 0.2, 0.7, flip=0.5)
    share = (mirrored[:, 0, 1] < mirrored[:, 0, 0]).mean()
    assert share == pytest.approx(0.5, abs=0.05)
    assert (mirrored[:, 1, 1] > mirrored[:, 1, 0]).all()  # never upside down
    straight = boxes(500, 0.2, 0.7)
    assert (straight[:, 0, 1] > straight[:, 0, 0]).all()


def test_a_crop_can_have_fewer_pixels() -> None:
    images = torch.rand(3, 3, 32, 32)
    assert random_crops(images, 0.2, 0.7, 18 / 32, 0.5).shape == (3, 3, 18, 18)
    assert torch.allclose(random_crops(images, 1.0, 1.0, 1.0, 0.0), images, atol=1e-5)  # all of it is the image
    # Halving takes the point between four pixels, which is their mean.
    assert torch.allclose(random_crops(images, 1.0, 1.0, 0.5, 0.0), F.avg_pool2d(images, 2), atol=1e-5)


def test_small_crops_share_a_tenth_with_any_key_that_keeps_nine_tenths_of_the_image() -> None:
    """What the published code draws again for: with its numbers for CIFAR-100 it never has to."""
    key, small = boxes(4000, 0.9, 1.0), boxes(4000, 0.2, 0.7)
    for shift in range(5):
        other = np.roll(small, 731 * shift, 0)
        shared = np.minimum(key[:, :, 1], other[:, :, 1]) - np.maximum(key[:, :, 0], other[:, :, 0])
        part = shared.clip(0).prod(1) / (other[:, :, 1] - other[:, :, 0]).prod(1)
        assert part.min() > 0.5


def test_half_precision_around_it_does_not_move_a_crop() -> None:
    images = torch.rand(8, 3, 32, 32)
    crops = []
    for half in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            crops.append(random_crops(images, 0.2, 0.7, 1.0, 0.5))
    assert torch.equal(*crops)


def test_images_in_half_precision_are_cut_at_places_in_full_precision() -> None:
    """On a GPU the batch comes so under autocast."""
    torch.manual_seed(0)
    images = torch.rand(4, 3, 16, 16).bfloat16()
    torch.manual_seed(1)
    crops = random_crops(images, 0.2, 0.7, 0.5, 0.5)
    torch.manual_seed(1)
    assert torch.equal(crops, random_crops(images.float(), 0.2, 0.7, 0.5, 0.5))

"""Changes of colour on a batch, against torchvision's on one image after the other."""

from __future__ import annotations

import itertools

import pytest
import torch
from scipy import stats
from torch import Tensor
from torchvision.transforms import functional as one

from fscil.core.config import AugmentConfig
from fscil.data.augment import Augment
from fscil.data.colours import add_contrast, brighten, greys, recolour, saturate, shift_hue

CPU = torch.device("cpu")
THEIRS = (one.adjust_brightness, one.adjust_contrast, one.adjust_saturation, one.adjust_hue)


def pictures(count: int = 24, size: int = 9) -> Tensor:
    """(n, 3, h, w): noise, with greys, black, white and pure colours in it, where a hue has corners."""
    images = torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))
    images[:, :, 0, :8] = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3))).T
    images[:, :, 1] = images[:, :1, 1]
    return images


def numbers(count: int, low: float, high: float, seed: int = 1) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=torch.Generator().manual_seed(seed))


def test_shades_of_grey_are_torchvisions() -> None:
    images = pictures()
    assert torch.allclose(greys(images), one.rgb_to_grayscale(images), atol=1e-4)


def test_every_image_is_changed_by_its_own_amount_as_torchvision_would() -> None:
    images = pictures()
    for ours, theirs, low, high in zip(
        (brighten, add_contrast, saturate, shift_hue), THEIRS, (0, 0, 0, -0.5), (2, 2, 2, 0.5), strict=True
    ):
        amounts = numbers(len(images), low, high)
        expected = torch.stack([theirs(image, float(a)) for image, a in zip(images, amounts, strict=True)])
        assert torch.allclose(ours(images, amounts), expected, atol=1e-4), ours.__name__


def test_a_hue_goes_round() -> None:
    images = pictures()
    third = shift_hue(images, torch.full((24,), 1 / 3))
    assert torch.allclose(third, images.roll(1, 1), atol=1e-5)  # red becomes green, green blue, blue red
    assert torch.allclose(shift_hue(images, torch.ones(24)), images, atol=1e-5)


def test_changes_come_in_the_order_of_each_image() -> None:
    """All 24 orders, each image in its own: as torchvision makes one change after the other."""
    images, orders = pictures(), torch.tensor(list(itertools.permutations(range(4))))
    amounts = [numbers(24, 0.6, 1.4, seed) for seed in range(3)] + [numbers(24, -0.1, 0.1, 3)]
    expected = []
    for number, image in enumerate(images):
        for change in orders[number].tolist():
            image = THEIRS[change](image, float(amounts[change][number]))
        expected.append(image)
    assert torch.allclose(recolour(images, *amounts, order=orders), torch.stack(expected), atol=1e-4)
    plain = recolour(images, *amounts)
    assert torch.allclose(plain, recolour(images, *amounts, order=torch.arange(4).expand(24, 4)), atol=1e-6)
    left_out = recolour(images, None, amounts[1], None, amounts[3])
    assert torch.allclose(left_out, shift_hue(add_contrast(images, amounts[1]), amounts[3]), atol=1e-6)


def augmented(images: Tensor, seed: int = 1, **options: float) -> Tensor:
    pixels = (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return Augment(AugmentConfig(**options), len(images), CPU)(pixels, torch.arange(len(images)), seed).images


def test_jitter_and_grey_come_as_often_as_asked() -> None:
    image = pictures(1).expand(1000, -1, -1, -1)
    plain = augmented(image)
    for option, share in (("jitter", 0.8), ("grey", 0.2)):
        options = {"jitter": {"hue": 0.1, "brightness": 0.4, "jitter": share}, "grey": {"grey": share}}[option]
        changed = (augmented(image, **options) - plain).abs().amax((1, 2, 3)) > 1e-3
        assert float(changed.float().mean()) == pytest.approx(share, abs=0.05)
    shades = augmented(image, grey=1.0)
    assert torch.allclose(shades, greys(plain).expand(-1, 3, -1, -1), atol=1e-5)


def test_the_hue_is_drawn_evenly_up_to_its_limit() -> None:
    red = torch.zeros(2000, 3, 2, 2)
    red[:, 0] = 1.0
    moved = augmented(red, hue=0.1)[:, :, 0, 0]
    # Red moved on by less than a sixth gains green, moved back gains blue: six times the shift.
    shift = (moved[:, 1] - moved[:, 2]) / 6
    assert stats.kstest(shift.numpy(), stats.uniform(-0.1, 0.2).cdf).statistic < 0.05


def test_all_orders_are_drawn_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []

    def remembered(images: Tensor, *amounts: Tensor | None, order: Tensor) -> Tensor:
        drawn.append(order)
        return recolour(images, *amounts, order=order)

    monkeypatch.setattr("fscil.data.augment.recolour", remembered)
    augmented(pictures(1).expand(2400, -1, -1, -1), brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
    orders, counts = drawn[0].unique(dim=0, return_counts=True)
    assert sorted(map(tuple, orders.tolist())) == list(itertools.permutations(range(4)))
    assert ((counts > 50) & (counts < 150)).all()


def test_black_blanks() -> None:
    white = torch.ones(16, 3, 8, 8)
    for options in ({"cutout": 0.5}, {"erase": 1.0}):
        blanked = augmented(white, blank="black", **options)  # type: ignore[arg-type]
        assert set(blanked.unique().tolist()) == {0.0, 1.0}
        assert augmented(white, **options).min() == 1  # else with the mean, which is white

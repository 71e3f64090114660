"""Transforms that make other classes of a class."""

from __future__ import annotations

import pytest
import torch

from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.data.augment import Augment
from fscil.data.fantasy import FANTASIES, expand, select, transformed


@pytest.mark.parametrize("count", [1, 2, 4, 12])
def test_every_image_in_every_transform_side_by_side(count: int) -> None:
    images, labels = torch.rand(3, 3, 6, 6), torch.tensor([0, 4, 2])
    out, joint = expand(images, labels, FANTASIES[count], classes=5)
    assert out.shape == (3 * count, 3, 6, 6)
    assert torch.equal(out[::count], images)
    assert joint.tolist() == [label + 5 * j for label in (0, 4, 2) for j in range(count)]
    assert len({tuple(image.flatten().tolist()) for image in out}) == 3 * count


def test_half_turns_by_hand() -> None:
    image = torch.arange(4.0).view(1, 1, 2, 2).expand(1, 3, 2, 2)
    out, _ = expand(image, torch.tensor([0]), FANTASIES[2], classes=1)
    assert out[1, 0].tolist() == [[3, 2], [1, 0]]


def test_colours_move_on_by_one() -> None:
    image = torch.tensor([10, 20, 30], dtype=torch.uint8).view(1, 1, 1, 3)
    assert transformed(image, (0, 1)).flatten().tolist() == [20, 30, 10]
    assert transformed(image.permute(0, 3, 1, 2).float(), (0, 2)).flatten().tolist() == [30, 10, 20]


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_bytes_and_floats_turn_alike(turns: int) -> None:
    image = torch.randint(0, 255, (2, 5, 5, 3), dtype=torch.uint8)
    as_float = image.permute(0, 3, 1, 2).float()
    assert torch.equal(transformed(image, (turns, 0)).permute(0, 3, 1, 2).float(), transformed(as_float, (turns, 0)))


def test_turns_are_those_of_the_augmentation() -> None:
    """A network trained with augment.turn is asked about images turned here: label and direction must agree."""
    images, labels = torch.randint(0, 255, (64, 8, 8, 3), dtype=torch.uint8), torch.zeros(64, dtype=torch.long)
    mixed = Augment(AugmentConfig(turn=0.75), 64, torch.device("cpu"), classes=1)(images, labels, seed=0)
    assert set(mixed.labels.tolist()) == {0, 1, 2, 3}
    pixels = images.permute(0, 3, 1, 2).float() / 255
    for i, turns in enumerate(mixed.labels.tolist()):
        assert torch.allclose(mixed.images[i], transformed(pixels[i : i + 1], (turns, 0))[0], atol=1e-4)


def test_one_transform_each() -> None:
    images = torch.rand(4, 3, 5, 5)
    choice = torch.tensor([0, 3, 1, 2])
    out = select(images, FANTASIES[4], choice)
    for i, turns in enumerate(choice.tolist()):
        assert torch.equal(out[i], images[i].rot90(turns, (1, 2)))


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(InputError, match="square"):
        expand(torch.rand(1, 3, 4, 5), torch.tensor([0]), FANTASIES[4], 1)
    assert expand(torch.rand(1, 3, 4, 5), torch.tensor([0]), FANTASIES[2], 1)[0].shape == (2, 3, 4, 5)

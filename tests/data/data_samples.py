"""Small data sets, and a check of what a refusal says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fscil.core.errors import InputError
from fscil.data import Dataset, ImageSet


def numbered_set(classes: int, per_class: int, first: int = 0, size: int = 8) -> ImageSet:
    """Images that carry their own number in their pixels: no two are alike, wherever they turn up."""
    count = classes * per_class
    images = np.random.default_rng(first + 1).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    images.reshape(count, -1)[:, :4] = np.arange(first, first + count).astype(">u4").view(np.uint8).reshape(count, 4)
    # Classes in turns, not in blocks: nothing may rely on sorted labels.
    return ImageSet(images, np.tile(np.arange(classes), per_class))


def numbered_dataset(classes: int = 20, train: int = 12, test: int = 4) -> Dataset:
    names = tuple(f"class{c}" for c in range(classes))
    return Dataset("numbered", numbered_set(classes, train), numbered_set(classes, test, first=100_000), names)


def numbers(images: Any) -> np.ndarray:
    """The numbers that `numbered_set` wrote into the images."""
    pixels = np.ascontiguousarray(np.asarray(images).reshape(len(images), -1)[:, :4])
    return pixels.view(">u4")[:, 0].astype(np.int64)


def refusal(call: Callable[[], Any], *words: Any) -> str:
    """The one sentence that `call` is refused with; it must hold all `words`."""
    with pytest.raises(InputError) as caught:
        call()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    for word in words:
        assert str(word) in sentence
    return sentence

"""Characters as pictures, for the tests of projects: drawn when asked for, without rendering the whole data set."""

from __future__ import annotations

import functools
import io

import numpy as np
import torch
from PIL import Image

from fscil.data.glyphs import CHARACTERS, TEST_FONTS, TRAIN_FONTS, distort, draw

NOVEL = CHARACTERS[60:]  # not seen when the glyphs network was trained


@functools.cache
def characters(character: str, count: int = 5, seed: int = 0, test: bool = False) -> tuple[np.ndarray, ...]:
    """`count` different pictures (32, 32, 3); `test`: in other fonts."""
    fonts = TEST_FONTS if test else TRAIN_FONTS
    ink = torch.stack([torch.from_numpy(draw(character, fonts[at % len(fonts)])) for at in range(count)])
    grey = distort(ink, torch.Generator().manual_seed(1000 * seed + ord(character))).numpy()
    return tuple(np.repeat(image[..., None], 3, axis=-1) for image in grey)


def encoded(image: np.ndarray, kind: str = "PNG", **options: int) -> bytes:
    out = io.BytesIO()
    Image.fromarray(image).save(out, kind, **options)
    return out.getvalue()


def noise(count: int, seed: int = 0, side: int = 32) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8))

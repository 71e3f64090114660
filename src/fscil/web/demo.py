"""The demo project: the ten digits in printed type, five images each, so that a drawing has something to match."""

from pathlib import Path

import numpy as np

from fscil.teach import Learner

DIGITS = "0123456789"
SHOTS = 5


def make_demo(folder: Path) -> Learner:
    """A project in an empty folder that already knows the digits."""
    learner = Learner.create(folder, encoder="glyphs")
    for digit in DIGITS:
        learner.learn(digit, printed(digit, SHOTS))
    return learner


def printed(character: str, count: int) -> list[np.ndarray]:
    """Images of a character as `fscil.data.glyphs` renders them, each in another font: (SIZE, SIZE, 3) uint8."""
    import torch

    from fscil.data import glyphs

    fonts = (*glyphs.TRAIN_FONTS[::3], *glyphs.TEST_FONTS)[:count]
    ink = torch.stack([torch.from_numpy(glyphs.draw(character, font)) for font in fonts])
    grey = glyphs.distort(ink, torch.Generator().manual_seed(ord(character)))
    return [np.repeat(image[..., None], 3, axis=2) for image in grey.numpy()]

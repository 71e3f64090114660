"""The demo project. With the encoder for photographs it knows two motifs, five pictures each, and photographs can be
added at once; with `glyphs` it knows the ten digits in printed type, so that a drawing has something to match.
"""

from pathlib import Path

import numpy as np

from fscil.teach import Learner
from fscil.teach.encoders import loading

DIGITS = "0123456789"
SHOTS = 5
# Of scikit-learn's two sample photographs: https://scikit-learn.org/stable/datasets/loading_other_datasets.html
MOTIFS = {"temple": "china.jpg", "flower": "flower.jpg"}
# Left, top and side of a part of a picture 640 wide and 427 high.
PARTS = ((0, 0, 427), (213, 0, 427), (106, 0, 400), (60, 20, 380), (200, 40, 380))


def make_demo(folder: Path, encoder: str = "") -> Learner:
    """A project in an empty folder that knows something already."""
    encoder = encoder or loading.default()
    learner = Learner.create(folder, encoder)
    if encoder == "glyphs":
        for digit in DIGITS:
            learner.learn(digit, printed(digit, SHOTS))
    else:
        for name, file in MOTIFS.items():
            learner.learn(name, parts(file))
    return learner


def parts(file: str) -> list[np.ndarray]:
    from sklearn.datasets import load_sample_image

    photograph = load_sample_image(file)
    return [photograph[top : top + side, left : left + side] for left, top, side in PARTS]


def printed(character: str, count: int) -> list[np.ndarray]:
    """Images of a character as `fscil.data.glyphs` renders them, each in another font: (SIZE, SIZE, 3) uint8."""
    import torch

    from fscil.data import glyphs

    fonts = (*glyphs.TRAIN_FONTS[::3], *glyphs.TEST_FONTS)[:count]
    ink = torch.stack([torch.from_numpy(glyphs.draw(character, font)) for font in fonts])
    grey = glyphs.distort(ink, torch.Generator().manual_seed(ord(character)))
    return [np.repeat(image[..., None], 3, axis=2) for image in grey.numpy()]

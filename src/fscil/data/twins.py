"""Images that are there twice: in the training and the test half, or in two classes. Neither can be scored fairly."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from fscil.data.dataset import Dataset, ImageSet


@dataclass(frozen=True)
class Twins:
    """Counts of identical pictures, and the classes of the first of each kind; equal pixels are all that counts."""

    in_both_halves: int  # test images that are training images too
    in_two_classes: int  # pictures that are in more classes than one
    class_in_both: str = ""
    classes_of_one: tuple[str, ...] = ()


def find_twins(dataset: Dataset, order: np.ndarray) -> Twins:
    """Among the classes in `order`, in that order."""
    names = dataset.class_names
    homes: dict[bytes, dict[int, None]] = {}  # by picture: its classes, in the order in which they come
    learned: set[bytes] = set()
    for image, label in _images(dataset.train, order):
        learned.add(image)
        homes.setdefault(image, {})[label] = None
    both: list[int] = []
    for image, label in _images(dataset.test, order):
        if image in learned:
            both.append(label)
        homes.setdefault(image, {})[label] = None
    two = [classes for classes in homes.values() if len(classes) > 1]
    return Twins(
        len(both),
        len(two),
        names[both[0]] if both else "",
        tuple(names[label] for label in two[0]) if two else (),
    )


def _images(part: ImageSet, order: np.ndarray) -> list[tuple[bytes, int]]:
    return [
        (hashlib.blake2b(part.images[row].tobytes(), digest_size=16).digest(), int(label))
        for label in order
        for row in np.flatnonzero(part.labels == label)
    ]

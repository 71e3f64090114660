"""Images with labels, checked once on the way in so that nothing downstream has to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fscil.errors import InputError


@dataclass(frozen=True)
class ImageSet:
    """uint8 images (n, height, width, 3) and their labels (n,)."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A data set with a train and a test half over the same classes. Labels index `class_names`."""

    name: str
    train: ImageSet
    test: ImageSet
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        for split, part in (("train", self.train), ("test", self.test)):
            _check_images(self.name, split, part)
            _check_labels(self.name, split, part, self.class_names)
        if self.train.images.shape[1:] != self.test.images.shape[1:]:
            raise InputError(
                f"Data set {self.name}: train images are {_size(self.train)} and test images {_size(self.test)}; "
                f"bring them to one size."
            )
        repeated = sorted({name for name in self.class_names if self.class_names.count(name) > 1})
        if repeated:
            raise InputError(f"Data set {self.name}: the class name '{repeated[0]}' appears twice; make names unique.")


def _size(part: ImageSet) -> str:
    return "x".join(str(side) for side in part.images.shape[1:])


def _check_images(name: str, split: str, part: ImageSet) -> None:
    images = part.images
    if images.dtype != np.uint8:
        raise InputError(
            f"Data set {name}: {split}_images is {images.dtype}; give uint8 values from 0 to 255."
        )
    if images.ndim != 4 or images.shape[-1] != 3 or min(images.shape) < 1:
        raise InputError(
            f"Data set {name}: {split}_images has shape {images.shape}; give (images, height, width, 3)."
        )
    if part.labels.shape != (len(images),):
        raise InputError(
            f"Data set {name}: {split}_labels has shape {part.labels.shape} for {len(images)} images; give one label per image."
        )


def _check_labels(name: str, split: str, part: ImageSet, class_names: tuple[str, ...]) -> None:
    labels = part.labels
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"Data set {name}: {split}_labels is {labels.dtype}; give integers from 0.")
    if labels.min() < 0 or labels.max() >= len(class_names):
        raise InputError(
            f"Data set {name}: {split}_labels runs from {labels.min()} to {labels.max()} but there are "
            f"{len(class_names)} class names; labels must lie between 0 and {len(class_names) - 1}."
        )
    missing = np.setdiff1d(np.arange(len(class_names)), labels)
    if len(missing):
        raise InputError(
            f"Data set {name}: class '{class_names[missing[0]]}' (label {missing[0]}) has no {split} image; "
            f"remove the class or add images."
        )

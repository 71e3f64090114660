"""Images with labels, checked once when they come in, so that nothing downstream has to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fscil.core.errors import InputError


@dataclass(frozen=True)
class ImageSet:
    """uint8 images (n, height, width, 3) and their labels (n,). The images may be mapped from a file."""

    images: np.ndarray
    labels: np.ndarray
    names: Sequence[str] = ()  # what the original archive calls each of them; empty where that is not known

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A data set with a train and a test half over the same classes. Labels index `class_names`."""

    name: str
    train: ImageSet
    test: ImageSet
    class_names: tuple[str, ...]
    # What identifies the content where rounding may change bytes from machine to machine; empty: the bytes themselves.
    identity: str = ""

    def __post_init__(self) -> None:
        check(f"Data set {self.name}", self.train, self.test, self.class_names)


def check(where: str, train: ImageSet, test: ImageSet, class_names: tuple[str, ...]) -> None:
    """Refuse arrays that do not make a data set, in a sentence that begins with `where`."""
    repeated = sorted({name for name in class_names if class_names.count(name) > 1})
    if repeated:
        raise InputError(f"{where}: class_names holds '{repeated[0]}' more than once; make the names unique.")
    for split, part in (("train", train), ("test", test)):
        _check_images(where, split, part)
        _check_labels(where, split, part, class_names)
    if train.images.shape[1:] != test.images.shape[1:]:
        raise InputError(
            f"{where}: train_images are {_size(train)} and test_images {_size(test)}; bring them to one size."
        )


def split_rows(count: int, fraction: float, seed: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Train and test rows of one class of `count` >= 2 images, at least one each, in their old order."""
    tested = min(max(1, round(fraction * count)), count - 1)
    shuffled = np.random.default_rng(seed).permutation(count)
    return np.sort(shuffled[tested:]), np.sort(shuffled[:tested])


def _size(part: ImageSet) -> str:
    return "x".join(str(side) for side in part.images.shape[1:])


def _check_images(where: str, split: str, part: ImageSet) -> None:
    images = part.images
    if images.dtype != np.uint8:
        raise InputError(
            f"{where}: {split}_images is {images.dtype}; give uint8 values from 0 to 255{_pixel_advice(images)}."
        )
    if images.ndim != 4 or images.shape[-1] != 3 or min(images.shape) < 1:
        raise InputError(
            f"{where}: {split}_images has shape {images.shape}; give (images, height, width, 3){_shape_advice(images)}."
        )
    if part.labels.shape != (len(images),):
        raise InputError(
            f"{where}: {split}_labels has shape {part.labels.shape} for {len(images)} images; give one label per image."
        )


def _pixel_advice(images: np.ndarray) -> str:
    if np.issubdtype(images.dtype, np.floating) and images.size and images.min() >= 0 and images.max() <= 1:
        return ", here with (images * 255).round().astype('uint8')"
    return ""


def _shape_advice(images: np.ndarray) -> str:
    shape = images.shape
    if len(shape) == 3 and min(shape) > 0:
        return ", for grey images with np.repeat(images[..., None], 3, axis=-1)"
    if len(shape) == 4 and shape[-1] == 1:
        return ", for grey images with np.repeat(images, 3, axis=-1)"
    if len(shape) == 4 and shape[-1] == 4:
        return ", without the alpha channel: images[..., :3]"
    if len(shape) == 4 and shape[1] == 3:
        return ", here with images.transpose(0, 2, 3, 1)"
    return ""


def _check_labels(where: str, split: str, part: ImageSet, class_names: tuple[str, ...]) -> None:
    labels = part.labels
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{where}: {split}_labels is {labels.dtype}; give integers from 0.")
    if labels.min() < 0 or labels.max() >= len(class_names):
        raise InputError(
            f"{where}: {split}_labels runs from {labels.min()} to {labels.max()} but there are {len(class_names)} "
            f"class_names; number the classes from 0 and name every one."
        )
    missing = np.setdiff1d(np.arange(len(class_names)), labels)
    if len(missing):
        raise InputError(
            f"{where}: class '{class_names[missing[0]]}' (label {missing[0]}) has no image in {split}_labels; "
            f"add images, or remove the class and close the gap."
        )

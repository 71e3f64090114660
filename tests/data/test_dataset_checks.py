"""What a data set must be, said for each way of not being one."""

from __future__ import annotations

import numpy as np
import pytest
from data_samples import numbered_dataset, numbered_set, refusal

from fscil.core.config import DataConfig
from fscil.data import Dataset, ImageSet
from fscil.data.dataset import split_rows

GOOD = numbered_set(3, 2)
NAMES = ("a", "b", "c")


def built(train: ImageSet = GOOD, test: ImageSet = GOOD, names: tuple[str, ...] = NAMES) -> Dataset:
    return Dataset("mine", train, test, names)


def with_images(images: np.ndarray) -> ImageSet:
    return ImageSet(images, GOOD.labels)


def with_labels(*labels: float) -> ImageSet:
    return ImageSet(GOOD.images, np.array(labels))


def test_a_sound_data_set_is_taken_as_it_is() -> None:
    dataset = numbered_dataset()
    assert len(dataset.train) == 240
    assert len(dataset.test) == 80


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ((GOOD.images / 255).astype(np.float32), ("train_images", "float32", "(images * 255).round().astype('uint8')")),
        (GOOD.images.astype(np.float64), ("train_images", "float64", "uint8")),
        (GOOD.images.astype(np.int64), ("train_images", "int64", "uint8")),
        (GOOD.images[..., 0], ("train_images", "(6, 8, 8)", "np.repeat(images[..., None], 3, axis=-1)")),
        (GOOD.images[..., :1], ("train_images", "(6, 8, 8, 1)", "np.repeat(images, 3, axis=-1)")),
        (np.concatenate([GOOD.images, GOOD.images[..., :1]], -1), ("(6, 8, 8, 4)", "images[..., :3]")),
        (GOOD.images.transpose(0, 3, 1, 2), ("(6, 3, 8, 8)", "images.transpose(0, 2, 3, 1)")),
        (GOOD.images[:0], ("train_images", "(0, 8, 8, 3)")),
        (GOOD.images[:, :0], ("train_images", "(6, 0, 8, 3)")),
        (GOOD.images[:5], ("train_labels", "(6,)", "5 images")),
    ],
)
def test_unfit_images(images: np.ndarray, words: tuple[str, ...]) -> None:
    refusal(lambda: built(train=with_images(images)), "Data set mine", *words)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ((0, 1, 2, 0, 1, 3), ("test_labels", "from 0 to 3", "3 class_names")),
        ((-1, 0, 1, 2, 0, 1), ("test_labels", "from -1 to 2")),
        ((0, 2, 0, 2, 0, 2), ("class 'b' (label 1)", "test_labels", "gap")),
        ((0.0, 1, 2, 0, 1, 2), ("test_labels", "float64", "integers")),
    ],
)
def test_unfit_labels(labels: tuple[float, ...], words: tuple[str, ...]) -> None:
    refusal(lambda: built(test=with_labels(*labels)), "Data set mine", *words)


def test_names_and_sizes() -> None:
    refusal(lambda: built(names=("a", "b", "a")), "'a'", "class_names", "unique")
    refusal(lambda: built(names=()), "train_labels", "0 class_names")
    refusal(lambda: built(test=numbered_set(3, 2, size=9)), "8x8x3", "9x9x3", "one size")


@pytest.mark.parametrize(("count", "fraction", "tested"), [(10, 0.3, 3), (2, 0.01, 1), (2, 0.99, 1), (7, 0.5, 4)])
def test_a_split_is_complete_and_disjoint(count: int, fraction: float, tested: int) -> None:
    train, test = split_rows(count, fraction, (0, 5))
    assert len(test) == tested
    assert sorted([*train, *test]) == list(range(count))


def test_a_split_follows_its_seed() -> None:
    one, same, other = (split_rows(50, 0.3, (seed, 1))[1].tolist() for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_unfit_splits() -> None:
    refusal(lambda: DataConfig(test_fraction=1.0), "data.test_fraction must be", "got 1")
    refusal(lambda: DataConfig(test_fraction=0.0), "data.test_fraction must be", "got 0")
    refusal(lambda: DataConfig(split_seed=-1), "data.split_seed must be", "got -1")

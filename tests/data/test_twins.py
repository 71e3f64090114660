"""Pictures that are there twice are counted, against a comparison of every picture with every other one."""

from __future__ import annotations

import numpy as np
import pytest
from data_samples import numbered_set

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Dataset, ImageSet
from fscil.data.twins import find_twins

NAMES = tuple("abcdef")


def with_copies(seed: int) -> Dataset:
    """Some pictures stand in for others, within a half, across halves and across classes."""
    random = np.random.default_rng(seed)
    train, test = numbered_set(6, 5), numbered_set(6, 3, first=1000)
    for _ in range(int(random.integers(0, 12))):
        parts = [(train, test)[side] for side in random.integers(0, 2, 2)]
        target, source = (int(random.integers(0, len(part))) for part in parts)
        parts[0].images[target] = parts[1].images[source]
    return Dataset("copies", train, test, NAMES)


def one_by_one(train: ImageSet, test: ImageSet, order: list[int]) -> tuple[int, int]:
    learned = [(i, c) for i, c in zip(train.images, train.labels, strict=True) if c in order]
    asked = [(i, c) for i, c in zip(test.images, test.labels, strict=True) if c in order]
    both = sum(any(np.array_equal(image, other) for other, _ in learned) for image, _ in asked)
    pictures: list[tuple[np.ndarray, set[int]]] = []
    for image, label in learned + asked:
        home = next((classes for known, classes in pictures if np.array_equal(known, image)), None)
        if home is None:
            pictures.append((image, {int(label)}))
        else:
            home.add(int(label))
    return both, sum(len(classes) > 1 for _, classes in pictures)


@pytest.mark.parametrize("seed", range(12))
def test_as_many_as_by_comparing_all(seed: int) -> None:
    data = with_copies(seed)
    for order in ([0, 1, 2, 3, 4, 5], [5, 2, 0]):
        found = find_twins(data, np.array(order))
        assert (found.in_both_halves, found.in_two_classes) == one_by_one(data.train, data.test, order)


def test_the_first_of_each_kind_is_named() -> None:
    data = Dataset("copies", numbered_set(6, 5), numbered_set(6, 3, first=1000), NAMES)
    data.test.images[data.test.labels == 4] = data.train.images[data.train.labels == 1][0]
    found = find_twins(data, np.arange(6))
    assert (found.class_in_both, found.classes_of_one) == ("e", ("b", "e"))
    assert (found.in_both_halves, found.in_two_classes) == (3, 1)
    assert find_twins(data, np.array([0, 1, 2])).in_both_halves == 0


def test_classes_that_no_session_takes() -> None:
    data = Dataset("six", numbered_set(6, 5), numbered_set(6, 3, first=1000), NAMES)
    assert Benchmark(data, DataConfig(base=2, way=3, shot=2)).left_over == ("f",)
    assert Benchmark(data, DataConfig(base=2, way=1, shot=2, sessions=2)).left_over == ("e", "f")
    assert Benchmark(data, DataConfig(base=2, way=2, shot=2)).left_over == ()
    shuffled = Benchmark(data, DataConfig(base=2, way=3, shot=2, order_seed=1))
    assert set(shuffled.left_over) == {*NAMES} - {*shuffled.class_names}

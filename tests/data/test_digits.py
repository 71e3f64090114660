"""digits: scikit-learn's images, scaled and split."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from fscil.core.config import DataConfig
from fscil.data import load_benchmark, load_dataset


def digits(**changes: int) -> DataConfig:
    return DataConfig(name="digits", base=4, way=2, **changes)  # type: ignore[arg-type]


def test_images_are_scikit_learns() -> None:
    dataset, source = load_dataset(digits()), load_digits()
    assert dataset.class_names == tuple("0123456789")
    assert dataset.train.images.shape[1:] == (8, 8, 3)
    assert dataset.train.images.max() == 255
    # Every image is there once, in one of the halves, with its label: 16 grey steps survive the scaling.
    images = np.concatenate([dataset.train.images, dataset.test.images])
    labels = np.concatenate([dataset.train.labels, dataset.test.labels])
    assert (images[..., 0] == images[..., 2]).all()
    found = sorted((np.round(i * (16 / 255)).tobytes(), int(k)) for i, k in zip(images[..., 0], labels, strict=True))
    assert found == sorted((i.tobytes(), int(k)) for i, k in zip(source.images, source.target, strict=True))


def test_split_is_per_class_and_seeded() -> None:
    one, same, other = load_dataset(digits()), load_dataset(digits()), load_dataset(digits(split_seed=1))
    shares = np.bincount(one.test.labels) / (np.bincount(one.train.labels) + np.bincount(one.test.labels))
    np.testing.assert_allclose(shares, 0.3, atol=0.01)
    assert np.array_equal(one.train.images, same.train.images)
    assert not np.array_equal(one.train.images, other.train.images)


def test_a_benchmark_of_three_sessions() -> None:
    benchmark = load_benchmark(digits())
    assert benchmark.classes == (4, 2, 2, 2)
    assert len(benchmark.session(3)) == 10

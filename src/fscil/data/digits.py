"""digits: scikit-learn's 1,797 handwritten digits of 8x8 pixels. Small enough for tests and first steps."""

import numpy as np

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.data.dataset import Dataset, ImageSet, split_rows


def load(config: DataConfig, _: Reporter | None = None) -> Dataset:
    """Split by seed, class by class: scikit-learn has no test half of its own."""
    from sklearn.datasets import load_digits  # here, as it takes a second to import

    source = load_digits()
    grey = np.round(source.images * (255 / 16)).astype(np.uint8)
    images, labels = np.repeat(grey[..., None], 3, axis=-1), source.target.astype(np.int64)
    kept, held = [], []
    for label in range(10):
        members = np.flatnonzero(labels == label)
        train_rows, test_rows = split_rows(len(members), config.test_fraction, (config.split_seed, label))
        kept.append(members[train_rows])
        held.append(members[test_rows])
    train, test = (ImageSet(images[rows], labels[rows]) for rows in (np.concatenate(kept), np.concatenate(held)))
    return Dataset("digits", train, test, tuple("0123456789"))

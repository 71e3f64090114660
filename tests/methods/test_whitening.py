"""Whitening by the spread inside classes: against scikit-learn's discriminant analysis, and by its definition."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fscil.methods.whitening import within_class_whitening

CLASSES, EACH, DIM = 5, 40, 6


def world(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(DIM, DIM))  # the same in every class, and far from round
    labels = np.repeat(np.arange(CLASSES), EACH)
    x = 2 * rng.normal(size=(CLASSES, DIM))[labels] + rng.normal(size=(len(labels), DIM)) @ spread
    return torch.tensor(x, dtype=torch.float32), torch.from_numpy(labels)


def test_nearest_means_of_whitened_features_are_discriminant_analysis() -> None:
    x, labels = world()
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=[1 / CLASSES] * CLASSES).fit(x.numpy(), labels.numpy())
    centre, matrix = within_class_whitening(x, labels, shrinkage=1e-9)
    white = (x - centre) @ matrix
    means = torch.stack([white[labels == c].mean(0) for c in range(CLASSES)])
    asked = x + torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    ours = torch.cdist((asked - centre) @ matrix, means).argmin(1)
    assert (ours.numpy() == theirs.predict(asked.numpy())).all()
    plain = torch.cdist(asked, torch.stack([x[labels == c].mean(0) for c in range(CLASSES)])).argmin(1)
    assert not torch.equal(plain, ours)  # the check can fail


def test_what_is_left_is_round_and_shrinkage_leaves_more() -> None:
    x, labels = world()
    inside = x - torch.stack([x[labels == c].mean(0) for c in range(CLASSES)])[labels]
    covariance = inside.T @ inside / (len(x) - CLASSES)
    _, matrix = within_class_whitening(x, labels, shrinkage=1e-9)
    assert torch.allclose(matrix @ covariance @ matrix, torch.eye(DIM), atol=1e-3)
    _, shrunk = within_class_whitening(x, labels, shrinkage=1e6)
    assert torch.allclose(shrunk / shrunk[0, 0], torch.eye(DIM), atol=1e-3)  # no direction is preferred any more


def test_one_image_per_class_has_no_spread() -> None:
    centre, matrix = within_class_whitening(torch.eye(4), torch.arange(4), shrinkage=1.0)
    assert torch.isfinite(centre).all()
    assert torch.isfinite(matrix).all()

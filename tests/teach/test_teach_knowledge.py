"""The maths on vectors, against scikit-learn and against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import normalize

from fscil.teach.encoders.embedding import Embedding, fit
from fscil.teach.learning.knowledge import ClassMemory, Knowledge, Space, rejoin

PLAIN = Space(((8, 1.0),), 0.7)
GROUPED = Space(((5, 0.6), (3, 0.4)), 0.7)


def world(sizes: list[int], space: Space, seed: int = 0, spread: float = 0.5) -> Knowledge:
    rng = np.random.default_rng(seed)
    memories = []
    for key, size in enumerate(sizes):
        vectors = rejoin(rng.normal(size=space.width) + spread * rng.normal(size=(size, space.width)), space.groups)
        memories.append(ClassMemory.make(key, f"c{key}", [f"{key}-{row:02}" for row in range(size)], vectors, space))
    return Knowledge(tuple(memories), space)


def test_prototypes_are_scikit_learns_centroids() -> None:
    knowledge = world([3, 5, 1, 8], PLAIN)
    vectors = np.concatenate([memory.vectors for memory in knowledge.memories])
    labels = np.repeat(np.arange(4), [3, 5, 1, 8])
    centroids = NearestCentroid().fit(vectors, labels).centroids_
    assert np.allclose(knowledge.prototypes, normalize(centroids), atol=1e-6)


def test_vectors_have_weighted_groups_of_unit_length() -> None:
    rows = rejoin(np.random.default_rng(0).normal(size=(7, 8)), GROUPED.groups)
    assert np.allclose(np.linalg.norm(rows[:, :5], axis=1) ** 2, 0.6)
    assert np.allclose(np.linalg.norm(rows[:, 5:], axis=1) ** 2, 0.4)
    cosines = (
        0.6 * normalize(rows[:, :5]) @ normalize(rows[:, :5]).T
        + 0.4 * normalize(rows[:, 5:]) @ normalize(rows[:, 5:]).T
    )
    assert np.allclose(rows @ rows.T, cosines, atol=1e-6)


def test_whitening_frees_from_the_spread_inside_classes() -> None:
    """Two classes differ in the first direction; images spread widely in the second, which carries nothing."""
    rng = np.random.default_rng(0)
    labels = torch.arange(2).repeat_interleave(300)
    features = torch.from_numpy(rng.normal(size=(600, 1, 6))).float() * torch.tensor([0.2, 8.0, 1, 1, 1, 1])
    features[:, 0, 0] += torch.where(labels == 0, 1.0, -1.0)
    vectors = fit(features, labels, (), 0, shrinkage=0.01)(features).numpy()
    means = np.stack([vectors[labels == c].mean(0) for c in (0, 1)])
    plain = normalize(features[:, 0].numpy())
    plain_means = np.stack([plain[labels == c].mean(0) for c in (0, 1)])
    right = (vectors @ normalize(means).T).argmax(1) == labels.numpy()
    plain_right = (plain @ normalize(plain_means).T).argmax(1) == labels.numpy()
    assert right.mean() > 0.98 > 0.85 > plain_right.mean()


def test_the_shapes_of_embeddings() -> None:
    for layers, whitened, width in ((0, False, 6), (2, False, 18), (0, True, 6), (2, True, 18 + 12)):
        embedding = Embedding(layers, 6, whitened=whitened)
        assert embedding.width == width
        assert sum(weight for _, weight in embedding.groups) == pytest.approx(1)
        if not whitened:
            vectors = embedding(torch.randn(4, 1 + layers, 6))
            assert torch.allclose(vectors.norm(dim=1), torch.ones(4))

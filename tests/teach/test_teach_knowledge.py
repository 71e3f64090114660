"""The maths on vectors, against scikit-learn, against plain loops, and against learning again without an image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import normalize

from fscil.teach.encoders.embedding import Embedding, fit
from fscil.teach.learning import calibration
from fscil.teach.learning.calibration import Calibration
from fscil.teach.learning.knowledge import ClassMemory, Knowledge, Space, rejoin

PLAIN = Space(((8, 1.0),), 0.7)
GROUPED = Space(((5, 0.6), (3, 0.4)), 0.7)
PRIOR = {"temperature": 0.1, "level": 0.5, "similarity": 0.7, "trust": 1.0}


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
    # With classes of one size the nearest normalised centroid is the answer.
    equal = world([4, 4, 4], PLAIN)
    queries = normalize(np.random.default_rng(1).normal(size=(50, 8)))
    reference = NearestCentroid().fit(equal.prototypes, [0, 1, 2])
    assert (equal.scores(queries).argmax(1) == reference.predict(queries)).all()


def test_vectors_have_weighted_groups_of_unit_length() -> None:
    rows = rejoin(np.random.default_rng(0).normal(size=(7, 8)), GROUPED.groups)
    assert np.allclose(np.linalg.norm(rows[:, :5], axis=1) ** 2, 0.6)
    assert np.allclose(np.linalg.norm(rows[:, 5:], axis=1) ** 2, 0.4)
    cosines = (
        0.6 * normalize(rows[:, :5]) @ normalize(rows[:, :5]).T
        + 0.4 * normalize(rows[:, 5:]) @ normalize(rows[:, 5:]).T
    )
    assert np.allclose(rows @ rows.T, cosines, atol=1e-6)


def test_leaving_out_is_learning_without() -> None:
    knowledge = world([3, 5, 1, 2], GROUPED)
    left = knowledge.left_out()
    assert len(left.ids) == 11
    for row, (image_id, label) in enumerate(zip(left.ids, left.labels, strict=True)):
        memory = knowledge.memories[label]
        at = memory.ids.index(image_id)
        if len(memory.ids) == 1:
            assert left.scores[row, label] == -np.inf
            continue
        keep = [r for r in range(len(memory.ids)) if r != at]
        rest = ClassMemory.make(label, "x", [memory.ids[r] for r in keep], memory.vectors[keep], GROUPED)
        again = Knowledge(tuple(rest if m is memory else m for m in knowledge.memories), GROUPED)
        # The similarity of images is estimated from all of them, so that one factor serves every image.
        again.__dict__["similarity"] = knowledge.similarity
        assert np.allclose(again.scores(memory.vectors[at : at + 1])[0], left.scores[row], atol=1e-5)
        assert left.others[row, label] == -np.inf


def test_a_sample_of_images_is_spread_over_the_classes() -> None:
    left = world([6] * 40, PLAIN).left_out(limit=20)
    assert len(left.ids) == 20
    assert len(set(left.labels.tolist())) == 10  # two of each, so that they can be left out
    assert left.labels.max() == 39
    assert len(world([6] * 4, PLAIN).left_out(limit=10).ids) == 10


def test_a_class_of_two_stands_against_one_of_twenty() -> None:
    """Simulated: scores of a new image against its own class do not depend on how many images taught it."""
    space = Space(((200, 1.0),), 0.5)
    rng = np.random.default_rng(0)
    means = {}
    for size in (1, 2, 5, 20):
        own = []
        for seed in range(60):
            centre = np.random.default_rng(seed).normal(size=200)
            taught = rejoin(centre + rng.normal(size=(size, 200)), space.groups)
            knowledge = Knowledge((ClassMemory.make(0, "a", [str(i) for i in range(size)], taught, space),), space)
            query = rejoin(centre + rng.normal(size=(1, 200)), space.groups)
            own.append(knowledge.scores(query)[0, 0])
        means[size] = np.mean(own)
    assert max(means.values()) - min(means.values()) < 0.03
    assert means[5] == pytest.approx(0.5 * (5 / 3) ** 0.5, abs=0.03)


def test_similarity_is_the_mean_over_pairs() -> None:
    knowledge = world([4, 3, 1], PLAIN)
    pairs = [
        float(memory.vectors[a] @ memory.vectors[b])
        for memory in knowledge.memories
        for a in range(len(memory.ids))
        for b in range(len(memory.ids))
        if a != b
    ]
    assert knowledge.similarity == pytest.approx((20 * 0.7 + sum(pairs)) / (20 + len(pairs)), abs=1e-6)


def negative_log_likelihood(knowledge: Knowledge, temperature: float, level: float) -> float:
    """Slow and plain, with scipy's softmax."""
    left = knowledge.left_out()
    known = [(s, y) for s, y in zip(left.scores, left.labels, strict=True) if np.isfinite(s[y])]
    total = len(known) + len(left.ids)
    lead = np.mean([s[y] for s, y in known]) - np.mean([s.max() for s in left.others])
    known = [(s - calibration.DISCOUNT * max(0, lead) * (np.arange(len(s)) == y), y) for s, y in known]
    value = 0.0
    for scores, label in known:
        chances = softmax(np.append((scores - level) / temperature, 0))
        value -= calibration.KNOWN * total / len(known) * np.log(chances[label])
    for scores in left.others:
        chances = softmax(np.append((scores - level) / temperature, 0))
        value -= (1 - calibration.KNOWN) * total / len(left.ids) * np.log(chances[-1])
    away = np.array([np.log(temperature / PRIOR["temperature"]), level - PRIOR["level"]]) / calibration.PRIOR_SPREAD
    return value + calibration.PRIOR_WEIGHT / 2 * float((away**2).sum())


@pytest.mark.parametrize("sizes", [[5, 5, 5], [2, 9, 1, 4]])
def test_temperature_and_level_are_the_most_probable(sizes: list[int]) -> None:
    knowledge = world(sizes, PLAIN)
    found = calibration.fit(knowledge, PRIOR)
    best = negative_log_likelihood(knowledge, found.temperature, found.level)
    for temperature in np.geomspace(0.02, 0.5, 15):
        for level in np.linspace(0, 0.9, 19):
            assert best <= negative_log_likelihood(knowledge, temperature, level) + 1e-3


def test_one_image_per_class() -> None:
    """Nothing says how alike images of one class are: a measured prior does; else the level lies above strangers."""
    knowledge = world([1, 1, 1], PLAIN)
    assert calibration.fit(knowledge, PRIOR) == Calibration(PRIOR["temperature"], PRIOR["level"])
    guessed = calibration.fit(knowledge, {**PRIOR, "trust": 0.02})
    best = np.median(knowledge.left_out().others.max(1))
    assert guessed.level == pytest.approx((best + 1) / 2)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.floats(0.01, 1), st.floats(-1, 1), st.integers(0, 100))
def test_unknown_wins_exactly_below_the_level(classes: int, temperature: float, level: float, seed: int) -> None:
    scores = np.random.default_rng(seed).uniform(-1, 1, (20, classes))
    chances = Calibration(temperature, level).probabilities(scores)
    assert np.allclose(chances.sum(1), 1)
    assert ((chances.argmax(1) == classes) == (scores.max(1) < level)).all()


@pytest.mark.parametrize("sizes", [[], [1], [5], [1, 1, 1], [2, 1]])
def test_few_images_stay_near_the_prior(sizes: list[int]) -> None:
    found = calibration.fit(world(sizes, PLAIN), PRIOR)
    assert 0.02 < found.temperature < 0.4
    assert 0.2 < found.level < 0.9


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

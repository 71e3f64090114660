"""What a project answers: against scikit-learn, against learning again without an image or class, and simulated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.kernel_ridge import KernelRidge as Reference

from fscil.teach.learning import blocks, calibration, kernel_ridge
from fscil.teach.learning import head as head_module
from fscil.teach.learning.blocks import BlockRidge, divided
from fscil.teach.learning.calibration import Calibration, level_for
from fscil.teach.learning.former import false_alarms_meant
from fscil.teach.learning.head import Head, spread
from fscil.teach.learning.kernel_ridge import Kernel, KernelRidge, Lessons
from fscil.teach.learning.knowledge import ClassMemory, Knowledge, Space, rejoin

PLAIN = Space(((8, 1.0),), 0.7)


def world(sizes: list[int], space: Space = PLAIN, seed: int = 0, spread: float = 0.5) -> Knowledge:
    rng = np.random.default_rng(seed)
    memories = []
    for key, size in enumerate(sizes):
        vectors = rejoin(rng.normal(size=space.width) + spread * rng.normal(size=(size, space.width)), space.groups)
        memories.append(ClassMemory.make(key, f"c{key}", [f"{key}-{row:02}" for row in range(size)], vectors, space))
    return Knowledge(tuple(memories), space)


def lessons(sizes: list[int]) -> Lessons:
    knowledge = world(sizes)
    vectors = np.concatenate([memory.vectors for memory in knowledge.memories])
    return Lessons(vectors, np.repeat(np.arange(len(sizes)), sizes), len(sizes))


def reference(lesson: Lessons, sharpness: float, ridge: float, keep: np.ndarray) -> Reference:
    """On unit vectors the kernel is the Gaussian one. Weights are those of the whole project."""
    weights = lesson.sizes[lesson.labels] ** -1.5
    weights /= weights.mean()
    model = Reference(alpha=ridge, kernel="rbf", gamma=sharpness / 2)
    return model.fit(lesson.vectors[keep], np.eye(lesson.classes)[lesson.labels[keep]], sample_weight=weights[keep])


@pytest.mark.parametrize(("sharpness", "ridge"), [(0.3, 0.03), (3.0, 0.3)])
def test_it_is_scikit_learns_kernel_ridge_also_left_out(sharpness: float, ridge: float) -> None:
    lesson = lessons([3, 6, 1, 4])
    model = KernelRidge(Kernel(lesson, sharpness), ridge)
    everything = np.arange(14)
    queries = rejoin(np.random.default_rng(5).normal(size=(9, 8)), PLAIN.groups)
    expected = reference(lesson, sharpness, ridge, everything).predict(queries)
    assert np.allclose(model.scores(queries @ lesson.anchors.T), expected, atol=1e-4)
    left = model.left_out(everything)
    for row in everything:
        rest = reference(lesson, sharpness, ridge, np.delete(everything, row))
        assert np.allclose(left[row], rest.predict(lesson.vectors[[row]])[0], atol=1e-4)
    for label, scores in enumerate(model.together_left_out(np.flatnonzero(lesson.labels == at) for at in range(4))):
        own = lesson.labels == label
        rest = reference(lesson, sharpness, ridge, everything[~own])
        assert np.allclose(scores, rest.predict(lesson.vectors[own]), atol=1e-4)


def test_many_images_are_stood_for_by_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer anchors than images it is ridge regression in the space that the anchors span; who is left out is no
    anchor either.
    """
    monkeypatch.setattr(kernel_ridge, "ANCHORS", 10)
    monkeypatch.setattr(kernel_ridge, "LARGE", 5)  # both ways to leave a class out
    lesson = lessons([12, 3, 9])
    assert np.bincount(lesson.labels[lesson.anchor_rows]).tolist() == [4, 3, 3]
    model, everything = KernelRidge(Kernel(lesson, 2.0), 0.1), np.arange(24)
    exact = lesson.vectors.astype(float)
    kernel = np.exp(2.0 * (exact @ exact.T - 1))

    def plain(keep: np.ndarray, asked: np.ndarray) -> np.ndarray:
        anchors = np.intersect1d(lesson.anchor_rows, keep)
        rows = lesson.roots[keep] * kernel[np.ix_(keep, anchors)]
        system = rows.T @ rows + 0.1 * kernel[np.ix_(anchors, anchors)]
        return np.asarray(kernel[np.ix_(asked, anchors)] @ np.linalg.solve(system, rows.T @ lesson.wanted(keep)))

    assert np.allclose(model.scores(lesson.similarities(everything)), plain(everything, everything), atol=1e-5)
    left = model.left_out(everything)
    for row in everything:
        assert np.allclose(left[row], plain(np.delete(everything, row), everything[[row]]), atol=1e-5)
    for label, scores in enumerate(model.together_left_out(np.flatnonzero(lesson.labels == at) for at in range(3))):
        own = lesson.labels == label
        assert np.allclose(scores, plain(everything[~own], everything[own]), atol=1e-5)


def test_the_order_of_teaching_does_not_matter() -> None:
    knowledge = world([5, 2, 7, 3])
    queries = rejoin(np.random.default_rng(5).normal(size=(20, 8)), PLAIN.groups)
    order = [2, 0, 3, 1]
    other = Knowledge(tuple(knowledge.memories[at] for at in order), PLAIN)
    first, second = Head(knowledge), Head(other)
    assert np.allclose(first.probabilities(queries)[:, [*order, 4]], second.probabilities(queries), atol=1e-9)
    left, again = first.left_out(), second.left_out()
    assert left.ids == again.ids
    assert np.allclose(left.scores[:, order], again.scores, atol=1e-9)
    assert [order[label] for label in again.labels] == left.labels.tolist()


def test_one_image_a_class_is_the_nearest_image() -> None:
    space = Space(((60, 1.0),), 0.7)
    found, means = [], []
    for seed in range(8):
        everything = world([30] * 10, space, seed, spread=2.0)
        few = tuple(ClassMemory.make(m.key, m.name, m.ids[:1], m.vectors[:1], space) for m in everything.memories)
        queries = np.concatenate([memory.vectors[1:] for memory in everything.memories])
        labels = np.repeat(np.arange(10), 29)
        knowledge = Knowledge(few, space)
        found.append((Head(knowledge).judge(queries)[0].argmax(1) == labels).mean())
        means.append(((queries @ knowledge.prototypes.T).argmax(1) == labels).mean())
    assert np.mean(found) > np.mean(means) - 0.01
    assert np.mean(means) < 0.9  # hard enough to tell


def test_more_than_means_where_means_mislead() -> None:
    """Classes differ in a quiet direction and spread widely in others: the mean sees the loud ones."""
    rng, space = np.random.default_rng(0), Space(((20, 1.0),), 0.7)
    loud = np.r_[np.full(3, 4.0), np.full(17, 0.3)]

    def images(label: int, count: int) -> np.ndarray:
        raw = loud * rng.normal(size=(count, 20))
        raw[:, 5 + label] += 1.5
        return rejoin(raw, space.groups)

    memories = tuple(
        ClassMemory.make(c, str(c), [f"{c}-{row:03}" for row in range(30)], images(c, 30), space) for c in range(4)
    )
    knowledge, queries = Knowledge(memories, space), np.concatenate([images(c, 50) for c in range(4)])
    labels = np.repeat(np.arange(4), 50)
    means = ((queries @ knowledge.prototypes.T).argmax(1) == labels).mean()
    assert (Head(knowledge).judge(queries)[0].argmax(1) == labels).mean() > means + 0.1


def test_a_class_of_two_stands_against_classes_of_twenty() -> None:
    space = Space(((40, 1.0),), 0.5)
    right: dict[int, list[float]] = {2: [], 20: []}
    for seed in range(8):
        everything = world([40] * 8, space, seed, spread=1.5)
        sizes = [2, 20] * 4
        taught = tuple(
            ClassMemory.make(m.key, m.name, m.ids[:size], m.vectors[:size], space)
            for m, size in zip(everything.memories, sizes, strict=True)
        )
        head = Head(Knowledge(taught, space))
        for label, (memory, size) in enumerate(zip(everything.memories, sizes, strict=True)):
            right[size].append(float((head.judge(memory.vectors[20:])[0].argmax(1) == label).mean()))
    assert np.mean(right[2]) > 0.75
    assert np.mean(right[20]) > 0.93


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_false_alarms_come_as_often_as_asked_for(rate: float) -> None:
    space, alarms = Space(((40, 1.0),), 0.7), []
    for seed in range(10):
        everything = world([40] * 8, space, seed, spread=1.2)
        taught = tuple(ClassMemory.make(m.key, m.name, m.ids[:8], m.vectors[:8], space) for m in everything.memories)
        chances = Head(Knowledge(taught, space), false_alarms=rate).probabilities(
            np.concatenate([memory.vectors[8:] for memory in everything.memories])
        )
        alarms.append(float((chances.argmax(1) == 8).mean()))
    assert rate / 4 < np.mean(alarms) < 1.2 * rate  # learned from one image less than there are, so rather fewer


def test_images_that_stand_for_others_are_judged_like_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """An anchor is like itself: left out of the sums only, what was taught would seem more alike than new images."""
    monkeypatch.setattr(kernel_ridge, "ANCHORS", 40)
    monkeypatch.setattr(head_module, "SERIES", 0.0)
    space = Space(((40, 1.0),), 0.7)
    everything = world([30] * 10, space, spread=1.5)
    taught = tuple(ClassMemory.make(m.key, m.name, m.ids[:12], m.vectors[:12], space) for m in everything.memories)
    head = Head(Knowledge(taught, space))
    likeness = head.judge(np.concatenate([memory.vectors[12:] for memory in everything.memories]))[1]
    anchor = np.isin(np.arange(120), head.lessons.anchor_rows)
    left = head.left_out().likeness
    assert anchor.sum() == 40
    for some in (left[anchor], left[~anchor], head.rehearsal.likeness):
        assert np.mean(some) == pytest.approx(np.mean(likeness), abs=0.1)
    assert (likeness < head.calibration.level).mean() < 0.08


def test_pictures_in_series_do_not_raise_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six series of three pictures that are nearly one; what is asked about is of other series."""
    space, alarms = Space(((40, 1.0),), 0.7), []
    for share in (head_module.SERIES, 0.0):
        monkeypatch.setattr(head_module, "SERIES", share)
        found = []
        for seed in range(5):
            rng, memories = np.random.default_rng(seed), []
            scenes = rng.normal(size=(8, 1, 40)) + 1.2 * rng.normal(size=(8, 26, 40))
            for label in range(8):
                taught = np.repeat(scenes[label, :6], 3, axis=0) + 0.2 * rng.normal(size=(18, 40))
                vectors = rejoin(taught, space.groups)
                ids = [f"{label}-{row:02}" for row in range(18)]
                memories.append(ClassMemory.make(label, str(label), ids, vectors, space))
            queries = rejoin(scenes[:, 6:].reshape(-1, 40), space.groups)
            found.append((Head(Knowledge(tuple(memories), space)).probabilities(queries).argmax(1) == 8).mean())
        alarms.append(float(np.mean(found)))
    assert alarms[0] < 0.12
    assert alarms[1] > 2 * alarms[0]


def test_the_level_is_a_quantile() -> None:
    values = np.random.default_rng(0).normal(size=400)
    for rate in (0.02, 0.1, 0.5):
        assert level_for(rate, values, np.empty(0)) == pytest.approx(np.quantile(values, rate), abs=0.1)
    assert level_for(0.05, np.array([0.5, 0.6]), np.array([0.1, 0.3])) < 0.5  # two images say little
    assert level_for(0.0, values, np.empty(0)) == values.min()


def test_temperature_and_softness_are_the_most_probable() -> None:
    head = Head(world([5, 4, 6, 3], spread=0.9))
    rehearsal, found = head.rehearsal, head.calibration

    def cost(temperature: float, softness: float) -> tuple[float, float]:
        by_class = -sum(
            np.log(softmax(scores / temperature)[label])
            for scores, label in zip(rehearsal.scores, rehearsal.labels, strict=True)
        )
        judge = Calibration(temperature, softness, found.level)
        known = judge.probabilities(rehearsal.scores, rehearsal.likeness)[:, -1]
        strange = judge.probabilities(rehearsal.strange_scores, rehearsal.strange_likeness)[:, -1]
        total = len(known) + len(strange)
        by_unknown = -0.8 * total * np.log(1 - known).mean() - 0.2 * total * np.log(strange).mean()
        usual = calibration._usual_temperature(rehearsal), calibration.SOFTNESS
        pulls = [2 * (np.log(x / y) / 0.5) ** 2 for x, y in zip((temperature, softness), usual, strict=True)]
        return by_class + pulls[0], by_unknown + pulls[1]

    best = cost(found.temperature, found.softness)
    for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2.0):
        assert best[0] <= cost(factor * found.temperature, found.softness)[0] + 1e-3
        assert best[1] <= cost(found.temperature, factor * found.softness)[1] + 1e-3


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(-1, 1), st.integers(0, 100))
def test_unknown_wins_exactly_below_the_level(
    classes: int, temperature: float, softness: float, level: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    likeness = rng.uniform(-1, 1, 20)
    chances = Calibration(temperature, softness, level).probabilities(rng.uniform(-1, 1, (20, classes)), likeness)
    assert np.allclose(chances.sum(1), 1)
    assert ((chances.argmax(1) == classes) == (likeness < level)).all()


@pytest.mark.parametrize("sizes", [[], [1], [5], [1, 1, 1], [2, 1], [1, 9]])
def test_any_number_of_images_gives_answers(sizes: list[int]) -> None:
    knowledge = world(sizes)
    head = Head(knowledge)
    own = [memory.vectors[0] for memory in knowledge.memories]
    far = -np.sum([np.zeros(8), *own], axis=0)
    chances = head.probabilities(np.array([*own, far / max(1e-9, float(np.linalg.norm(far)))], dtype=np.float32))
    assert np.isfinite(chances).all()
    assert chances[:-1].argmax(1).tolist() == list(range(len(sizes)))
    assert chances[-1].argmax() == len(sizes)
    assert 0 < head.calibration.level < 0.9


def test_a_sample_of_images_is_spread_over_the_classes() -> None:
    sizes = np.array([6] * 40)
    rows = spread(sizes, 20)
    assert len(rows) == 20
    assert len(set((rows // 6).tolist())) == 10  # two of each, so that they can be left out
    assert (rows // 6).max() == 39
    assert len(spread(sizes[:4], 10)) == 10
    assert spread(sizes[:2], None).tolist() == list(range(12))


def test_a_threshold_of_an_older_version_keeps_its_meaning() -> None:
    """There it was the cosine with a class mean; a plain loop counts which images fell below it."""
    knowledge = world([4, 3, 1], spread=1.0)
    for threshold in (-1.0, 0.3, 0.6, 0.8):
        below = []
        for label, memory in enumerate(knowledge.memories[:2]):
            for row in range(len(memory.ids)):
                near = []
                for other, means in enumerate(knowledge.memories):
                    keep = [r for r in range(len(means.ids)) if (other, r) != (label, row)]
                    mean = means.vectors[keep].mean(0)
                    near.append(float(memory.vectors[row] @ mean / np.linalg.norm(mean)))
                below.append(max(near) < threshold)
        assert false_alarms_meant(knowledge, threshold) == pytest.approx(min(np.mean(below), 0.5))
    assert false_alarms_meant(world([1, 1]), 0.5) is None


@pytest.mark.parametrize(("block", "chunk"), [(100, 7), (3, 1000), (2, 4)])
def test_blocks_of_classes_are_regressions_of_their_own(
    block: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin that is dense: normal equations by numpy from all images at once, learned again without those left out."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    monkeypatch.setattr(kernel_ridge, "ANCHORS", 9)
    monkeypatch.setattr(kernel_ridge, "CHUNK", chunk)
    sizes = [4, 1, 6, 2, 5, 3, 3]
    lesson, everything = lessons(sizes), np.arange(24)
    parts = divided(lesson)
    assert all((np.bincount(part.labels[part.anchor_rows], minlength=part.classes) > 0).all() for part in parts)
    model = BlockRidge(parts, 2.0, 0.1)
    anchors = np.concatenate([part.anchors for part in parts])

    def twin(out: np.ndarray, asked: np.ndarray) -> np.ndarray:
        columns = []
        for part in parts:
            first = sum(len(before.labels) for before in parts[: len(columns)])
            keep = np.setdiff1d(np.arange(len(part.labels)), out - first)
            standing = np.setdiff1d(part.anchor_rows, out - first)  # who is left out is no anchor either
            anchors = part.vectors[standing].astype(float)
            kernel = np.exp(2.0 * (part.vectors.astype(float) @ anchors.T - 1))
            weights = part.sizes[part.labels] ** -1.5
            weights = np.diag(weights / weights.mean())[np.ix_(keep, keep)]
            system = kernel[keep].T @ weights @ kernel[keep] + 0.1 * kernel[standing]
            found = np.linalg.solve(system, kernel[keep].T @ weights @ np.eye(part.classes)[part.labels[keep]])
            columns.append(np.exp(2.0 * (lesson.vectors[asked].astype(float) @ anchors.T - 1)) @ found)
        return np.concatenate(columns, axis=1)

    similarities = lesson.vectors.astype(float) @ anchors.T
    none = np.array([], dtype=int)
    assert np.allclose(model.scores(similarities), twin(none, everything), atol=1e-4)
    assert np.allclose(np.exp(2 * (similarities - 1)) @ model.coefficients, model.scores(similarities), atol=1e-9)
    left = model.left_out(everything)
    for row in everything:
        assert np.allclose(left[row], twin(everything[[row]], everything[[row]])[0], atol=1e-4)
    for label, scores in enumerate(model.classes_left_out(range(7))):
        own = np.flatnonzero(lesson.labels == label)
        assert np.allclose(scores, twin(own, own), atol=1e-4)


def test_the_order_of_teaching_does_not_matter_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 2)
    monkeypatch.setattr(kernel_ridge, "ANCHORS", 6)
    monkeypatch.setattr(kernel_ridge, "CHUNK", 5)
    test_the_order_of_teaching_does_not_matter()


@pytest.mark.parametrize("valley", [-3.0, -0.4, 0.0, 1.7, 3.4])
def test_the_valley_is_where_scipy_finds_it(valley: float) -> None:
    def cost(x: float) -> float:
        return float(np.cosh(x - valley) + 0.3 * abs(x - valley))

    expected = minimize_scalar(cost, bounds=(-3.4, 3.4), method="bounded", options={"xatol": 1e-7}).x
    assert calibration._lowest(cost, -3.4, 3.4) == pytest.approx(expected, abs=2 * calibration.CLOSE)

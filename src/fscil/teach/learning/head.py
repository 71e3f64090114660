"""What a project answers: which class an image shows, how sure that is, and whether it shows any of them.

Two kernel ridge regressions on the project's images (`kernel_ridge.py`). One tells the classes apart; sharpness and
ridge are chosen by leave-one-out. The other, sharper one gives the *likeness*: about 1 for an image like those of a
class, about 0 for one like none, which is 'unknown' (`calibration.py`).

All of it is a function of the images alone: the order of teaching does not matter, and undo is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fscil.teach.learning.blocks import BlockRidge, divided
from fscil.teach.learning.calibration import FALSE_ALARMS, SOFTNESS, TEMPERATURE, Calibration, Rehearsal, fit
from fscil.teach.learning.kernel_ridge import Kernel, KernelRidge, Lessons
from fscil.teach.learning.knowledge import Knowledge

# Chosen on projects of twelve kinds of icons and of forty classes of CIFAR-100 (docs/teach.md). Sharpness is counted
# per distance between images of different classes.
SHARPNESS, RIDGES = (0.2, 0.5, 1.0, 2.0), (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
USUAL = (1.0, 0.2)  # without images to tell; and the choice is drawn there
USUAL_SPREAD = 1.5  # how far a logarithm of them may be off
LIKENESS = (3.0, 0.3)  # sharpness and ridge of the second regression
DISTANCE, PAIRS = 0.7, 10  # between images of different classes: what is usual, and the pairs that it counts for
SERIES = 1 / 8  # share of the other images of its class that may be of one series with an image
SAMPLE = 400  # images on which choices are made: a cost that does not grow with the project


@dataclass(frozen=True)
class LeftOut:
    """Images as the project judges them when it was taught without them."""

    ids: tuple[str, ...]
    labels: np.ndarray  # (n,) column of the image's class
    alone: np.ndarray  # (n,) whether its class had no other image
    scores: np.ndarray  # (n, classes)
    likeness: np.ndarray  # (n,) to the most similar class
    own_likeness: np.ndarray  # (n,) to its own

    @property
    def own(self) -> np.ndarray:
        return np.asarray(self.scores[np.arange(len(self.labels)), self.labels])

    @property
    def others(self) -> np.ndarray:
        """(n, classes) without the image's class."""
        out = self.scores.copy()
        out[np.arange(len(self.labels)), self.labels] = -np.inf
        return out


class Head:
    """`level`: likeness below which nothing fits, where the user has set it; else it comes of the false alarms."""

    def __init__(
        self,
        knowledge: Knowledge,
        level: float | None = None,
        false_alarms: float | None = None,
        settings: tuple[float, float] | None = None,
    ) -> None:
        self.knowledge, self.set_level = knowledge, level
        self.false_alarms = FALSE_ALARMS if false_alarms is None else false_alarms
        self._settings = settings
        # By the ids of images, whatever the order they were taught in: sums and samples are then the same.
        self._taught = np.array(sorted(range(len(knowledge.names)), key=lambda at: knowledge.memories[at].ids[0]), int)
        self._place = np.argsort(self._taught)  # of a column of the answers among those inside
        memories = self._memories = [knowledge.memories[at] for at in self._taught]
        self.lessons = Lessons(
            np.concatenate([np.empty((0, knowledge.space.width), np.float32), *[each.vectors for each in memories]]),
            np.repeat(np.arange(len(memories)), knowledge.sizes[self._taught]),
            len(memories),
        )
        self.distance = _distance(self.lessons)
        self._blocks = divided(self.lessons)

    @cached_property
    def settings(self) -> tuple[float, float]:
        """Sharpness and ridge of the first regression."""
        return self._settings or _chosen(self.lessons, self.distance)

    @cached_property
    def classifier(self) -> BlockRidge:
        sharpness, ridge = self.settings
        return BlockRidge(self._blocks, sharpness / self.distance, ridge)

    @cached_property
    def anchors(self) -> np.ndarray:
        """(anchors, width)"""
        return np.concatenate([block.anchors for block in self._blocks])

    @property
    def class_coefficients(self) -> np.ndarray:
        """(anchors, classes)"""
        return np.asarray(self.classifier.coefficients[:, self._place])

    @cached_property
    def matcher(self) -> BlockRidge:
        return BlockRidge(self._blocks, LIKENESS[0] / self.distance, LIKENESS[1])

    @cached_property
    def calibration(self) -> Calibration:
        if not self.lessons.classes:
            return Calibration(TEMPERATURE, SOFTNESS, self._middling() if self.set_level is None else self.set_level)
        return fit(self.rehearsal, self.false_alarms, self.set_level)

    @cached_property
    def rehearsal(self) -> Rehearsal:
        left = self.left_out(SAMPLE)
        asked = ~left.alone
        apart = self._series_left_out(spread(self.lessons.sizes, SAMPLE)[asked])
        scores, likeness = self._classes_left_out()
        if (
            self.lessons.classes == 1
        ):  # no examples of what was never taught: something half as like as one of the class
            likeness = np.append(likeness, self._middling())
            scores = np.zeros((len(likeness), 1))
        return Rehearsal(left.scores[asked], apart, left.labels[asked], scores, likeness)

    def judge(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores (n, classes) and likeness (n,)."""
        similarities = vectors.astype(np.float64) @ self.anchors.T
        scores = self.classifier.scores(similarities)[:, self._place]
        return scores, self.matcher.scores(similarities).max(1, initial=-np.inf)

    def probabilities(self, vectors: np.ndarray) -> np.ndarray:
        """(n, classes + 1); the last column is 'unknown'."""
        if not self.lessons.classes:
            return np.ones((len(vectors), 1))
        return self.calibration.probabilities(*self.judge(vectors))

    def left_out(self, limit: int | None = None) -> LeftOut:
        """Every image, or `limit` of them, in turn from all classes."""
        sizes, labels = self.lessons.sizes, self.lessons.labels
        rows = spread(sizes, limit)
        ids = [image_id for memory in self._memories for image_id in memory.ids]
        if not len(rows):
            return LeftOut((), rows, rows.astype(bool), np.empty((0, len(sizes))), np.empty(0), np.empty(0))
        matches = self.matcher.left_out(rows)
        return LeftOut(
            tuple(ids[row] for row in rows),
            self._taught[labels[rows]],
            sizes[labels[rows]] == 1,
            self.classifier.left_out(rows)[:, self._place],
            matches.max(1),
            matches[np.arange(len(rows)), labels[rows]],
        )

    def _series_left_out(self, rows: np.ndarray) -> np.ndarray:
        """Likeness (n,) of images that are left out with those of their class that are most like them: pictures are
        taken in series, and those that come later are of another one.
        """
        groups = (self._series(row) for row in rows)
        return np.array([scores[0].max() for scores in self.matcher.together_left_out(groups)])

    def _series(self, row: int) -> np.ndarray:
        label = self.lessons.labels[row]
        own = np.arange(self.lessons.starts[label], self.lessons.starts[label] + self.lessons.sizes[label])
        near = own[np.argsort(-(self.lessons.vectors[own] @ self.lessons.vectors[row]), kind="stable")]
        return np.concatenate([[row], near[near != row][: int(SERIES * (len(own) - 1))]])

    def _classes_left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Examples of what was never taught: images whose whole class is left out."""
        scores, likeness = [np.empty((0, self.lessons.classes))], [np.empty(0)]
        labels = _some_classes(self.lessons.sizes) if self.lessons.classes > 1 else np.empty(0, int)
        for label, each in zip(labels, self.classifier.classes_left_out(labels), strict=True):
            each[:, label] = -np.inf
            scores.append(each[:, self._place])
        likeness += [each.max(1) for each in self.matcher.classes_left_out(labels)]
        return np.concatenate(scores), np.concatenate(likeness)

    def _middling(self) -> float:
        near, far = 1 - self.knowledge.space.similarity, DISTANCE
        return float(np.exp(-LIKENESS[0] * (near + far) / 2 / self.distance) / (1 + LIKENESS[1]))


def _distance(lessons: Lessons) -> float:
    """One minus the cosine of images of different classes, on average."""
    sums = np.add.reduceat(lessons.vectors, lessons.starts, axis=0, dtype=np.float64)
    total = sums.sum(0)
    pairs = float(len(lessons.labels) ** 2 - (lessons.sizes**2).sum())
    found = pairs - float(total @ total - (sums**2).sum())
    return float(np.clip((PAIRS * DISTANCE + found) / (PAIRS + pairs), 0.05, 2.0))


def _chosen(lessons: Lessons, distance: float) -> tuple[float, float]:
    classes = _some_classes(lessons.sizes)
    some = lessons.of(classes, max(2, SAMPLE // max(1, len(classes))))
    asked = np.flatnonzero(some.sizes[some.labels] > 1)
    if not len(asked) or len(classes) < 2:
        return USUAL
    found: list[tuple[float, float, float]] = []
    for sharpness in SHARPNESS:
        kernel = Kernel(some, sharpness / distance)
        for ridge in RIDGES:
            scores = KernelRidge(kernel, ridge).left_out(asked)
            away = np.log([sharpness / USUAL[0], ridge / USUAL[1]]) / USUAL_SPREAD
            found.append((_cost(scores, some.labels[asked]) + 0.5 * float((away**2).sum()), sharpness, ridge))
    return min(found)[1:]


def _cost(scores: np.ndarray, labels: np.ndarray) -> float:
    """Negative log likelihood at the temperature that is best."""
    costs = []
    for temperature in np.geomspace(0.02, 0.5, 12):
        logits = scores / temperature
        top = logits.max(1)
        total = np.log(np.exp(logits - top[:, None]).sum(1)) + top
        costs.append(float((total - logits[np.arange(len(labels)), labels]).sum()))
    return min(costs)


def _some_classes(sizes: np.ndarray) -> np.ndarray:
    """Classes at even distances, with about `SAMPLE` images together."""
    count = int(np.clip(SAMPLE // max(1, np.median(sizes)), 2, len(sizes)))
    return np.unique(np.linspace(0, len(sizes) - 1, count).round().astype(int))


def spread(sizes: np.ndarray, limit: int | None) -> np.ndarray:
    """Rows: the first image of each class, then the second ...; at most `limit`. Over the limit, classes are taken at
    even distances, so that old and new ones are represented alike.
    """
    labels = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if limit is None or len(labels) <= limit:
        return np.arange(len(labels))
    count = min(len(sizes), max(1, limit // 2))  # at least two images of each chosen class
    chosen = np.linspace(0, len(sizes) - 1, count).round().astype(int)
    rows = np.flatnonzero(np.isin(labels, chosen))
    return np.sort(rows[np.argsort(place[rows], kind="stable")][:limit])

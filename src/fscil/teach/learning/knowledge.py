"""What a project knows, in memory: one prototype per class and the vectors of its images. Immutable: a change makes a
new object that shares the classes it did not touch, so readers in other threads keep a consistent view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Groups = tuple[tuple[int, float], ...]  # (width, weight) of each part of a vector, see `fscil.teach.encoders.embedding`
REFERENCE_IMAGES = 5  # scores are given as if every class had been taught with this many images
PAIRS = 20  # of one class: as many as the encoder's expectation of their similarity counts for


def rejoin(total: np.ndarray, groups: Groups) -> np.ndarray:
    """A sum of vectors (..., width) as a vector again: every group scaled back to its length."""
    out, start = np.empty(total.shape, dtype=np.float32), 0
    for width, weight in groups:
        part = total[..., start : start + width]
        length = np.maximum(np.linalg.norm(part, axis=-1, keepdims=True), 1e-12)
        out[..., start : start + width] = part * (weight**0.5 / length)
        start += width
    return out


def principal_axes(points: np.ndarray) -> np.ndarray:
    """The two directions (2, width) in which the points differ most, for a map; the largest entry of each positive."""
    axes = np.zeros((2, points.shape[1]), dtype=np.float32)
    if len(points) > 1:
        directions = np.linalg.svd((points - points.mean(0)).astype(np.float64), full_matrices=False)[2][:2]
        largest = np.abs(directions).argmax(1)
        axes[: len(directions)] = directions * np.sign(directions[np.arange(len(directions)), largest])[:, None]
    return axes


@dataclass(frozen=True)
class Space:
    """The space the vectors live in."""

    groups: Groups
    similarity: float  # of two images of one class, as expected before any are seen

    @property
    def width(self) -> int:
        return sum(width for width, _ in self.groups)


@dataclass(frozen=True)
class ClassMemory:
    key: int  # of the class in the store; it stays when the class is renamed
    name: str
    ids: tuple[str, ...]  # of its images, sorted: sums do not depend on the order of teaching
    vectors: np.ndarray  # (images, width)
    total: np.ndarray  # their sum, float64
    prototype: np.ndarray

    @classmethod
    def make(cls, key: int, name: str, ids: Sequence[str], vectors: np.ndarray, space: Space) -> ClassMemory:
        order = sorted(range(len(ids)), key=lambda row: ids[row])
        vectors = np.ascontiguousarray(vectors[order])
        total = vectors.sum(0, dtype=np.float64)
        return cls(key, name, tuple(ids[row] for row in order), vectors, total, rejoin(total, space.groups))


@dataclass(frozen=True)
class LeftOut:
    """Scores of images against classes that were learned without them."""

    ids: tuple[str, ...]
    labels: np.ndarray  # (n,) column of the image's class
    scores: np.ndarray  # (n, classes); -inf where a class had no other image

    @property
    def own(self) -> np.ndarray:
        return self.scores[np.arange(len(self.labels)), self.labels]

    @property
    def others(self) -> np.ndarray:
        """(n, classes) with the own class gone: what the image would score had its class never been taught."""
        out = self.scores.copy()
        out[np.arange(len(self.labels)), self.labels] = -np.inf
        return out


@dataclass(frozen=True)
class Knowledge:
    memories: tuple[ClassMemory, ...]  # in the order of teaching
    space: Space

    @property
    def names(self) -> list[str]:
        return [memory.name for memory in self.memories]

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.array([len(memory.ids) for memory in self.memories], dtype=np.int64)

    @cached_property
    def prototypes(self) -> np.ndarray:
        """(classes, width)"""
        if not self.memories:
            return np.empty((0, self.space.width), dtype=np.float32)
        return np.stack([memory.prototype for memory in self.memories])

    @cached_property
    def similarity(self) -> float:
        """Of two images of one class, on average; the encoder's expectation where there are few pairs."""
        pairs = (self.sizes * (self.sizes - 1)).sum()
        # The square of a sum of unit vectors holds every pair twice, and every vector with itself.
        found = sum(float(memory.total @ memory.total) - len(memory.ids) for memory in self.memories)
        return float(np.clip((PAIRS * self.space.similarity + found) / (PAIRS + pairs), 0.05, 0.99))

    def fairness(self, sizes: np.ndarray) -> np.ndarray:
        """The mean of many images points nearer to everything in its class than the mean of few does. With similarity r
        between images, a new image's score against the mean of m is proportional to sqrt(m / (1 + (m - 1) r)): this
        factor takes it out, so that a class taught with two images stands against one taught with twenty.
        """

        def gain(m: np.ndarray) -> np.ndarray:
            return np.sqrt(m / (1 + (m - 1) * self.similarity))

        return (gain(np.array(REFERENCE_IMAGES)) / gain(np.maximum(sizes, 1))).astype(np.float32)

    @cached_property
    def weights(self) -> np.ndarray:
        """(classes, width): scores are dot products with these."""
        return self.prototypes * self.fairness(self.sizes)[:, None]

    def scores(self, vectors: np.ndarray) -> np.ndarray:
        """Similarity (n, classes): about -1..1, higher is nearer."""
        return vectors @ self.weights.T

    def left_out(self, limit: int | None = None) -> LeftOut:
        """Every image (or `limit` of them, in turn from all classes) against the classes without it."""
        rows = _spread(self.sizes.tolist(), limit)
        ids = tuple(self.memories[label].ids[row] for label, row in rows)
        labels = np.array([label for label, _ in rows], dtype=np.int64)
        if not rows:
            return LeftOut(ids, labels, np.empty((0, len(self.memories)), dtype=np.float32))
        vectors = np.stack([self.memories[label].vectors[row] for label, row in rows])
        scores = self.scores(vectors)
        rest = np.stack([self.memories[label].total for label in labels]) - vectors
        left = self.sizes[labels] - 1
        own = (vectors * rejoin(rest, self.space.groups)).sum(1) * self.fairness(left)
        scores[np.arange(len(rows)), labels] = np.where(left == 0, -np.inf, own)
        return LeftOut(ids, labels, scores)


def _spread(sizes: Sequence[int], limit: int | None) -> list[tuple[int, int]]:
    """(class, row) pairs: the first image of each class, then the second ...; at most `limit`.

    Over the limit, classes are taken at even distances, so that old and new ones are represented alike.
    """
    if limit is None or sum(sizes) <= limit:
        return [(label, row) for label, size in enumerate(sizes) for row in range(size)]
    if len(sizes) > limit // 2:  # at least two images of each chosen class
        chosen = np.linspace(0, len(sizes) - 1, limit // 2).round().astype(int).tolist()
    else:
        chosen = list(range(len(sizes)))
    pairs: list[tuple[int, int]] = []
    row = 0
    while len(pairs) < limit:
        found = [(label, row) for label in chosen if row < sizes[label]]
        if not found:
            break
        pairs += found
        row += 1
    return sorted(pairs[:limit])

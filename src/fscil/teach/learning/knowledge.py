"""What a project knows, in memory: one prototype per class and the vectors of its images. Immutable: a change makes a
new object that shares the classes it did not touch, so readers in other threads keep a consistent view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Groups = tuple[tuple[int, float], ...]  # (width, weight) of each part of a vector, see `fscil.teach.encoders.embedding`


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

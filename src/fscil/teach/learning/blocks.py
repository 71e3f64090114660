"""Many classes in blocks, each with a kernel ridge regression of its own: time and memory grow with the images only.

Every class has an anchor in its block, which one regression for all could afford for a thousand classes at most. To
tell a class from those of its own block is enough: an image of another block is like nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby

import numpy as np

from fscil.teach.learning import kernel_ridge
from fscil.teach.learning.kernel_ridge import Kernel, KernelRidge, Lessons, batches

BLOCK = 500  # classes of a block, and anchors; one block has all where that takes no more than `ANCHORS` images


def divided(lessons: Lessons) -> list[Lessons]:
    """Blocks of classes that follow each other; one, if the images or classes are few."""
    if len(lessons.labels) <= kernel_ridge.ANCHORS or lessons.classes <= BLOCK:
        return [lessons]
    found, ends = [], np.append(lessons.starts, len(lessons.labels))
    for labels in np.array_split(np.arange(lessons.classes), -(-lessons.classes // BLOCK)):
        rows = slice(ends[labels[0]], ends[labels[-1] + 1])
        found.append(Lessons(lessons.vectors[rows], lessons.labels[rows] - labels[0], len(labels), BLOCK))
    return found


class BlockRidge:
    """As `KernelRidge`, with rows and classes counted through all blocks."""

    def __init__(self, blocks: list[Lessons], sharpness: float, ridge: float) -> None:
        self.sharpness, self._blocks = sharpness, blocks
        self._parts = [KernelRidge(Kernel(block, sharpness), ridge) for block in blocks]
        self._rows, self._classes, self._anchors = (
            np.cumsum([0, *counts])
            for counts in (
                [len(block.labels) for block in blocks],
                [block.classes for block in blocks],
                [len(block.anchor_rows) for block in blocks],
            )
        )

    @cached_property
    def coefficients(self) -> np.ndarray:
        """(anchors, classes)"""
        from scipy.linalg import block_diag

        return np.asarray(block_diag(*[part.coefficients for part in self._parts]))

    def scores(self, similarities: np.ndarray) -> np.ndarray:
        """(n, classes) from cosines with the anchors."""
        each = np.split(similarities, self._anchors[1:-1], axis=1)
        return np.concatenate([part.scores(some) for part, some in zip(self._parts, each, strict=True)], axis=1)

    def left_out(self, rows: np.ndarray) -> np.ndarray:
        """These images (n, classes), each scored by what is learned from all others."""
        out = np.empty((len(rows), self._classes[-1]))
        for at, part in enumerate(self._parts):
            own = (rows >= self._rows[at]) & (rows < self._rows[at + 1])
            columns = slice(self._classes[at], self._classes[at + 1])
            out[own, columns] = part.left_out(rows[own] - self._rows[at])
            out[~own, columns] = self._scored(at, rows[~own])
        return out

    def together_left_out(self, groups: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Groups of images of a class, each (n, classes) and scored by what is learned without any of the group."""
        for own, run in groupby(groups, key=lambda rows: int(np.searchsorted(self._rows, rows[0], side="right")) - 1):
            for batch in batches(run):
                rows = np.concatenate(batch)
                inside = self._parts[own].together_left_out([group - self._rows[own] for group in batch])
                columns = [
                    np.concatenate(list(inside)) if at == own else self._scored(at, rows)
                    for at in range(len(self._parts))
                ]
                yield from np.split(np.concatenate(columns, axis=1), np.cumsum([len(group) for group in batch])[:-1])

    def classes_left_out(self, labels: Iterable[int]) -> Iterator[np.ndarray]:
        """The images of each class (n, classes), scored by what is learned from all other classes."""
        ends = np.concatenate([start + block.starts for start, block in zip(self._rows, self._blocks, strict=False)])
        ends = np.append(ends, self._rows[-1])
        return self.together_left_out(np.arange(ends[label], ends[label + 1]) for label in labels)

    def _scored(self, at: int, rows: np.ndarray) -> np.ndarray:
        """Images of other blocks (n, classes of this one)."""
        owner = np.searchsorted(self._rows, rows, side="right") - 1
        vectors = np.empty((len(rows), self._blocks[at].vectors.shape[1]))
        for other in np.unique(owner):
            vectors[owner == other] = self._blocks[other].vectors[rows[owner == other] - self._rows[other]]
        return self._parts[at].scores(vectors @ self._blocks[at].anchors.T)

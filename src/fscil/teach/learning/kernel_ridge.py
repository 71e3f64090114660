"""Kernel ridge regression from vectors to classes, with any image, or any class, left out in closed form.

    scores(v) = exp(sharpness (v a^T - 1)) B        a: anchors, images of the project; vectors have length one

B is what ridge regression on one column per class (1 for its images, 0 for all others) finds; a small class stands
against a large one. With a sharpness near zero the kernel is linear in the cosine; a strong ridge then gives the
comparison with class means, a weak one is discriminant analysis. A sharp kernel asks the images that are nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

ANCHORS = 1000  # at most: beyond, so many images stand for all (Nystroem's method), which bounds time and memory
JITTER = 1e-7
# An image weighs so much less the more its class has. With 1 classes would weigh alike; but the fewer the images, the
# more a ridge shrinks the scores of their class. In simulation (tests/teach/test_teach_head.py) classes of 2 beside
# classes of 20 are named in 13 % of cases with 0, in 67 with 1, in 83 with 1.5; those of 20 in 99, 98 and 96.
FAIRNESS = 1.5
CHUNK = 2000  # images that are compared with the anchors at a time: memory does not grow with their number
LARGE = 500  # images of a class that is left out by learning again, as that is then quicker


@dataclass(frozen=True)
class Lessons:
    """Images as vectors, class after class; every class has some."""

    vectors: np.ndarray  # (n, width)
    labels: np.ndarray  # (n,) ascending
    classes: int
    most: int | None = None  # anchors; else `ANCHORS`

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.labels, minlength=self.classes)

    @cached_property
    def anchor_rows(self) -> np.ndarray:
        """All, or so many, in turn from all classes."""
        place = np.arange(len(self.labels)) - np.repeat(self.starts, self.sizes)
        return np.sort(np.argsort(place, kind="stable")[: self.most or ANCHORS])

    @cached_property
    def anchors(self) -> np.ndarray:
        return self.vectors[self.anchor_rows].astype(np.float64)

    def similarities(self, rows: np.ndarray | slice) -> np.ndarray:
        """(n, anchors) cosines."""
        return np.asarray(self.vectors[rows].astype(np.float64) @ self.anchors.T)

    @cached_property
    def roots(self) -> np.ndarray:
        """(n, 1) square roots of the weights of images."""
        weights = self.sizes[self.labels] ** -FAIRNESS
        return np.sqrt(weights / weights.mean())[:, None]

    def wanted(self, rows: np.ndarray) -> np.ndarray:
        """(n, classes), weighted."""
        out = np.zeros((len(rows), self.classes))
        out[np.arange(len(rows)), self.labels[rows]] = self.roots[rows, 0]
        return out

    @cached_property
    def starts(self) -> np.ndarray:
        """The first row of each class."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    def of(self, classes: np.ndarray, most: int) -> Lessons:
        """Only these classes, and of each at most so many images."""
        rows = np.concatenate([np.flatnonzero(self.labels == label)[:most] for label in classes])
        return Lessons(self.vectors[rows], np.searchsorted(classes, self.labels[rows]), len(classes))


class Kernel:
    """The images as rows of a space in which the kernel is the dot product.

    Learning needs only their `products` (anchors, anchors) and, class by class, `sums` (anchors, classes).
    """

    def __init__(self, lessons: Lessons, sharpness: float) -> None:
        self.lessons, self.sharpness = lessons, sharpness
        own = self._compared(lessons.anchor_rows)
        own[np.diag_indices_from(own)] += JITTER
        self.root = _root(own)
        self._kept: np.ndarray | None = None
        if len(lessons.labels) <= len(own):
            self._kept = self._rows(lessons.anchor_rows)
            self.products = self._kept.T @ self._kept
            self.sums = np.add.reduceat(self._kept * lessons.roots, lessons.starts, axis=0).T
        else:
            self.products, self.sums = self._summed()

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """(n, anchors)"""
        return self._rows(rows) if self._kept is None else np.asarray(self._kept[rows])

    def standing(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of these images are anchors, and what says of a solution how much each of those adds (n, anchors).

        An anchor is like itself, a new image is not: who is left out must not stand for others either. Nothing where
        all images are anchors, as there an image adds only what was learned from it.
        """
        places = np.searchsorted(self.lessons.anchor_rows, rows)
        places[places == len(self.root)] = 0
        own = np.flatnonzero((self.lessons.anchor_rows[places] == rows) & (self._kept is None))
        return own, _solved(self.root, np.eye(len(self.root))[:, places[own]]).T

    def _rows(self, rows: np.ndarray) -> np.ndarray:
        found = _solved(self.root, self._compared(rows).T)
        return np.asarray(found.T * self.lessons.roots[rows])

    def _compared(self, rows: np.ndarray | slice) -> np.ndarray:
        kernel = self.lessons.similarities(rows)
        kernel -= 1
        kernel *= self.sharpness
        return np.asarray(np.exp(kernel, out=kernel))

    def _summed(self) -> tuple[np.ndarray, np.ndarray]:
        """Summed before they become rows: images need not be solved for, and few are in memory at a time."""
        lessons, anchors = self.lessons, len(self.root)
        products, sums = np.zeros((anchors, anchors)), np.zeros((lessons.classes, anchors))
        for start in range(0, len(lessons.labels), CHUNK):
            part = slice(start, start + CHUNK)
            kernel, labels = self._compared(part) * lessons.roots[part], lessons.labels[part]
            products += kernel.T @ kernel
            kernel *= lessons.roots[part]
            starts = np.flatnonzero(np.diff(labels, prepend=-1))
            sums[labels[starts]] += np.add.reduceat(kernel, starts, axis=0)
        half = _solved(self.root, products)
        return (
            _solved(self.root, half.T),
            _solved(self.root, sums.T),
        )


class KernelRidge:
    def __init__(self, kernel: Kernel, ridge: float) -> None:
        self._kernel, self._lessons, self.ridge = kernel, kernel.lessons, ridge
        system = kernel.products + ridge * np.eye(len(kernel.products))
        self._factor = _root(system)
        self._solution = _solve(self._factor, kernel.sums)

    @property
    def sharpness(self) -> float:
        return self._kernel.sharpness

    @cached_property
    def coefficients(self) -> np.ndarray:
        """(anchors, classes)"""
        return _solved(self._kernel.root, self._solution, transposed=True)

    def scores(self, similarities: np.ndarray) -> np.ndarray:
        """(n, classes) from cosines with the anchors."""
        return np.asarray(np.exp(self.sharpness * (similarities - 1)) @ self.coefficients)

    def left_out(self, rows: np.ndarray) -> np.ndarray:
        """These images (n, classes), each scored by what is learned from all others: (Y - F) / (1 - leverage) off."""
        some, wanted = self._kernel.rows(rows), self._lessons.wanted(rows)
        half = _solved(self._factor, some.T)
        missed, share = wanted - some @ self._solution, 1 - (half**2).sum(0)
        own, anchors = self._kernel.standing(rows)
        if len(own):  # two equations each, as below
            stood = _solved(self._factor, anchors.T)
            both = (half[:, own] * stood).sum(0)
            pull = both / (stood**2).sum(0)
            missed[own] += pull[:, None] * (anchors @ self._solution)
            share[own] += pull * both
        error = missed / np.maximum(share, 1e-9)[:, None]
        return np.asarray((wanted - error) / self._lessons.roots[rows])

    def together_left_out(self, groups: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Groups of images, each (n, classes) and scored by what is learned without any of the group."""
        for batch in batches(groups):
            rows = np.concatenate(batch)
            some, wanted = self._kernel.rows(rows), self._lessons.wanted(rows)
            own, anchors = self._kernel.standing(rows)
            ends = np.cumsum([len(group) for group in batch])
            if len(batch[0]) > LARGE:  # alone
                found = some @ self._learned_without(some, wanted, anchors)
            else:
                half, stood = _solved(self._factor, some.T), _solved(self._factor, anchors.T)
                missed, held = wanted - some @ self._solution, -(anchors @ self._solution)
                errors = []
                for start, end in pairwise([0, *ends]):
                    its = (own >= start) & (own < end)
                    both = np.hstack([half[:, start:end], stood[:, its]])
                    # An anchor is held at nothing: as an image is left out, but with no share of its own.
                    share = np.repeat([1 + 1e-9, 0], [end - start, its.sum()])
                    error = np.linalg.solve(
                        np.diag(share) - both.T @ both, np.concatenate([missed[start:end], held[its]])
                    )
                    errors.append(error[: end - start])
                found = wanted - np.concatenate(errors)
            yield from np.split(found / self._lessons.roots[rows], ends[:-1])

    def _learned_without(self, some: np.ndarray, wanted: np.ndarray, anchors: np.ndarray) -> np.ndarray:
        """The solution (anchors, classes) without these images."""
        system = self._kernel.products - some.T @ some + self.ridge * np.eye(some.shape[1])
        found, pull = np.linalg.solve(system, self._kernel.sums - some.T @ wanted), np.linalg.solve(system, anchors.T)
        return np.asarray(found - pull @ np.linalg.solve(anchors @ pull, anchors @ found))


def batches(groups: Iterable[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Groups that have at most `LARGE` rows together, or one that has more."""
    batch: list[np.ndarray] = []
    for group in groups:
        if batch and sum(map(len, batch)) + len(group) > LARGE:
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch


def _solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    half = _solved(factor, right)
    return _solved(factor, half, transposed=True)


def _root(matrix: np.ndarray) -> np.ndarray:
    """Lower triangular. scipy is imported by who needs an answer; to list a project takes none."""
    from scipy.linalg import cholesky

    return np.asarray(cholesky(matrix, lower=True, check_finite=False))


def _solved(root: np.ndarray, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(root, right, lower=True, trans=int(transposed), check_finite=False))

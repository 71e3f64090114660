"""Kernel ridge regression from vectors to classes, with any image, or any class, left out in closed form.

    scores(v) = exp(sharpness (v a^T - 1)) B        a: anchors, images of the project; vectors have length one

B is what ridge regression on one column per class (1 for its images, 0 for all others) finds; a small class stands
against a large one. With a sharpness near zero the kernel is linear in the cosine; a strong ridge then gives the
comparison with class means, a weak one is discriminant analysis. A sharp kernel asks the images that are nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular

ANCHORS = 1000  # at most: beyond, so many images stand for all (Nystroem's method), which bounds time and memory
JITTER = 1e-7
# An image weighs so much less the more its class has. With 1 classes would weigh alike; but the fewer the images, the
# more a ridge shrinks the scores of their class. In simulation (tests/teach/test_teach_head.py) classes of 2 beside
# classes of 20 are named in 13 % of cases with 0, in 67 with 1, in 83 with 1.5; those of 20 in 99, 98 and 96.
FAIRNESS = 1.5
LARGE = 500  # images of a class that is left out by learning again, as that is then quicker


@dataclass(frozen=True)
class Lessons:
    """Images as vectors, class after class."""

    vectors: np.ndarray  # (n, width)
    labels: np.ndarray  # (n,) ascending
    classes: int

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.labels, minlength=self.classes)

    @cached_property
    def anchor_rows(self) -> np.ndarray:
        """All, or so many, in turn from all classes."""
        place = np.arange(len(self.labels)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        return np.sort(np.argsort(place, kind="stable")[:ANCHORS])

    @cached_property
    def anchors(self) -> np.ndarray:
        return np.asarray(self.vectors[self.anchor_rows])

    @cached_property
    def similarities(self) -> np.ndarray:
        """(n, anchors) cosines."""
        return np.asarray(self.vectors.astype(np.float64) @ self.anchors.T.astype(np.float64))

    @cached_property
    def roots(self) -> np.ndarray:
        """(n, 1) square roots of the weights of images."""
        weights = self.sizes[self.labels] ** -FAIRNESS
        return np.sqrt(weights / weights.mean())[:, None]

    @cached_property
    def wanted(self) -> np.ndarray:
        """(n, classes), weighted."""
        return np.asarray(np.eye(self.classes)[self.labels] * self.roots)

    def of(self, classes: np.ndarray, most: int) -> Lessons:
        """Only these classes, and of each at most so many images."""
        rows = np.concatenate([np.flatnonzero(self.labels == label)[:most] for label in classes])
        return Lessons(self.vectors[rows], np.searchsorted(classes, self.labels[rows]), len(classes))


class Kernel:
    """The images as rows of a space in which the kernel is the dot product."""

    def __init__(self, lessons: Lessons, sharpness: float) -> None:
        self.lessons, self.sharpness = lessons, sharpness
        kernel = np.exp(sharpness * (lessons.similarities - 1))
        own = kernel[lessons.anchor_rows]
        own[np.diag_indices_from(own)] += JITTER
        self.root = cholesky(own, lower=True, check_finite=False)
        self.rows = solve_triangular(self.root, kernel.T, lower=True, check_finite=False).T * lessons.roots
        self.products = self.rows.T @ self.rows
        self.sums = self.rows.T @ lessons.wanted


class KernelRidge:
    def __init__(self, kernel: Kernel, ridge: float) -> None:
        self._kernel, self._lessons, self.ridge = kernel, kernel.lessons, ridge
        system = kernel.products + ridge * np.eye(len(kernel.products))
        self._factor = cholesky(system, lower=True, check_finite=False)
        self._solution = _solve(self._factor, kernel.sums)

    @property
    def sharpness(self) -> float:
        return self._kernel.sharpness

    @cached_property
    def coefficients(self) -> np.ndarray:
        """(anchors, classes)"""
        return np.asarray(solve_triangular(self._kernel.root, self._solution, lower=True, trans=1, check_finite=False))

    def scores(self, similarities: np.ndarray) -> np.ndarray:
        """(n, classes) from cosines with the anchors."""
        return np.asarray(np.exp(self.sharpness * (similarities - 1)) @ self.coefficients)

    def left_out(self, rows: np.ndarray) -> np.ndarray:
        """These images (n, classes), each scored by what is learned from all others: (Y - F) / (1 - leverage) off."""
        some, wanted = self._kernel.rows[rows], self._lessons.wanted[rows]
        half = solve_triangular(self._factor, some.T, lower=True, check_finite=False)
        error = (wanted - some @ self._solution) / np.maximum(1 - (half**2).sum(0), 1e-9)[:, None]
        return np.asarray((wanted - error) / self._lessons.roots[rows])

    def class_left_out(self, label: int) -> np.ndarray:
        """The images of a class (n, classes), scored by what is learned from all other classes."""
        return self.together_left_out(np.flatnonzero(self._lessons.labels == label))

    def together_left_out(self, rows: np.ndarray) -> np.ndarray:
        """These images (n, classes), scored by what is learned without any of them."""
        some, wanted = self._kernel.rows[rows], self._lessons.wanted[rows]
        if len(rows) > LARGE:
            system = self._kernel.products - some.T @ some + self.ridge * np.eye(some.shape[1])
            found = some @ np.linalg.solve(system, self._kernel.sums - some.T @ wanted)
        else:
            half = solve_triangular(self._factor, some.T, lower=True, check_finite=False)
            hat = half.T @ half
            found = wanted - np.linalg.solve((1 + 1e-9) * np.eye(len(rows)) - hat, wanted - some @ self._solution)
        return np.asarray(found / self._lessons.roots[rows])


def _solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    half = solve_triangular(factor, right, lower=True, check_finite=False)
    return np.asarray(solve_triangular(factor, half, lower=True, trans=1, check_finite=False))

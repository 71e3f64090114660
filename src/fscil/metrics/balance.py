"""Base/novel balance: generalized accuracy gAcc (paper section 3.2) and the harmonic accuracy hAcc (eq. A2).

gAcc_i(alpha) lets a base class weigh alpha and a novel class 1. With |Y_j| classes in session j,

    gAcc_i(alpha) = (alpha |Y_1| A_i^1 + sum_j |Y_j| A_i^j) / (alpha |Y_1| + sum_j |Y_j|),    j = 2..i,

which is eq. 4 multiplied by |Y_novel| when the way is constant, and its meaning when it is not: alpha = 0 stays the
accuracy on novel classes, alpha = 1 the class-weighted aAcc. (alpha = 1/r gives tAcc only for a constant way.)

Two summaries of the curve are in use; never compare one with the other. They lie about half a point apart on the
published benchmarks, and many points where the sessions are few:
- exact: the integral over alpha in [0, 1] (eq. 5), here in closed form;
- grid: what published numbers used, the trapezoid rule on alpha = 0, 1/r, ..., 1 with r = |Y_1| / |Y_novel|, where the
  base session counts 0 at alpha = 0. Unlike the published computation we do not round accuracies to 0.1 first.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

import numpy as np

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics.accuracy import base_acc_per_session, mean_defined, novel_acc_per_session

AtZero = Literal["limit", "published"]
"""gAcc(0) of the base session, where eq. 4 is 0/0: "limit" is its value for every alpha > 0, "published" is 0."""


def gacc_at(matrix: AccuracyMatrix, alpha: float, at_zero: AtZero = "limit") -> list[float]:
    """gAcc_i(alpha), eq. 4, for every session i.

    Examples:
        Of new classes alone, and of all classes alike:

        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> [round(each, 2) for each in gacc_at(matrix, 0)]
        [80.0, 40.0, 40.0]
        >>> [round(each, 2) for each in gacc_at(matrix, 1)]
        [80.0, 65.33, 57.5]
    """
    if not 0.0 <= alpha <= 1.0:
        raise InputError(f"alpha is {alpha:g}; give a value between 0 (novel classes only) and 1 (all classes alike).")
    if at_zero not in ("limit", "published"):
        raise InputError(f"at_zero is '{at_zero}'; give 'limit' or 'published'.")
    base_weight = alpha * matrix.classes[0]
    gacc = []
    for base, novel, novel_weight in _base_and_novel(matrix):
        if novel is None:
            gacc.append(0.0 if alpha == 0.0 and at_zero == "published" else base)
        else:
            gacc.append((base_weight * base + novel_weight * novel) / (base_weight + novel_weight))
    return gacc


def gacc_curve(matrix: AccuracyMatrix, alphas: Sequence[float], at_zero: AtZero = "limit") -> list[float]:
    """gAcc(alpha) averaged over sessions, one value per alpha: the curve of figure 2a."""
    return [fmean(gacc_at(matrix, alpha, at_zero)) for alpha in alphas]


def gacc_exact_per_session(matrix: AccuracyMatrix) -> list[float]:
    """gAcc_i, eq. 5, in closed form: b + (m - b) ln(1 + q)/q with q = |Y_1|/N, for base accuracy b and novel accuracy m
    over N classes; b in the base session. For a constant way this is b + (S - n b)/r ln((r + n)/n), S the novel sum.
    """
    gacc = []
    for base, novel, novel_weight in _base_and_novel(matrix):
        if novel is None:
            gacc.append(base)
        else:
            ratio = matrix.classes[0] / novel_weight
            gacc.append(base + (novel - base) * float(np.log1p(ratio)) / ratio)
    return gacc


def gacc_exact(matrix: AccuracyMatrix) -> float:
    """gAcc, eq. 6, from the exact integral.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> [round(each, 2) for each in gacc_exact_per_session(matrix)]
        [80.0, 57.13, 50.74]
        >>> round(gacc_exact(matrix), 2)
        62.62
    """
    return fmean(gacc_exact_per_session(matrix))


def grid_steps(classes: Sequence[int]) -> int | None:
    """How many steps the published grid has: r = |Y_1| / |Y_novel| (12, 12 and 10 on the three benchmarks).

    A way that varies enters by its mean over all novel sessions. An r that is not whole is rounded up: the grid stays
    even and keeps both ends, alpha = 0 (novel) and alpha = 1 (aAcc), and never gets coarser than 1/r.
    None with no novel session, where r does not exist.
    """
    base, novel = classes[0], classes[1:]
    # In integers: a quotient of floats could land just above a whole number and add a step.
    return -(-base * len(novel) // sum(novel)) if novel else None


def gacc_grid_per_session(matrix: AccuracyMatrix, steps: int | None = None) -> list[float]:
    """gAcc_i as published: trapezoid rule on `steps` intervals of alpha, 0 at alpha = 0 in the base session.

    `steps` defaults to `grid_steps` of the matrix. Give it for a matrix cut off early, so that its rows get the values
    they will have in the whole one. A base session alone has no r: unless `steps` is given its value is its accuracy,
    the limit for many steps, as there is no published grid to follow.
    """
    if steps is not None and steps < 1:
        raise InputError(f"The gAcc grid has {steps} steps; give at least 1, or nothing for the published grid.")
    steps = steps or grid_steps(matrix.classes)
    if steps is None:
        return base_acc_per_session(matrix)
    curve = np.array([gacc_at(matrix, k / steps, at_zero="published") for k in range(steps + 1)])  # (steps + 1, T)
    # Written out, as numpy renamed trapz to trapezoid in version 2.
    area = (curve[0] / 2 + curve[1:-1].sum(axis=0) + curve[-1] / 2) / steps
    return [float(value) for value in area]


def gacc_grid(matrix: AccuracyMatrix, steps: int | None = None) -> float:
    """gAcc, eq. 6, from the published grid: the one to compare with published numbers.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> [round(each, 2) for each in gacc_grid_per_session(matrix)]
        [60.0, 55.83, 50.21]
        >>> round(gacc_grid(matrix), 2)
        55.35
    """
    return fmean(gacc_grid_per_session(matrix, steps))


def hacc_per_session(matrix: AccuracyMatrix) -> list[float | None]:
    """hAcc_i, eq. A2: harmonic mean of base and novel accuracy; 0 when both are 0, None in the base session."""
    return [None if novel is None else _harmonic(base, novel) for base, novel, _ in _base_and_novel(matrix)]


def hacc(matrix: AccuracyMatrix) -> float | None:
    """The mean of hAcc_i over the incremental sessions; None for a matrix of the base session alone.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> round(hacc(matrix), 2)
        52.53
    """
    return mean_defined(hacc_per_session(matrix))


def _harmonic(base: float, novel: float) -> float:
    return 2 * base * novel / (base + novel) if base + novel > 0 else 0.0


def _base_and_novel(matrix: AccuracyMatrix) -> list[tuple[float, float | None, int]]:
    """Per session: base accuracy, novel accuracy (None in the base session), number of novel classes."""
    novel_classes = [sum(matrix.classes[1 : i + 1]) for i in range(matrix.sessions)]
    return list(zip(base_acc_per_session(matrix), novel_acc_per_session(matrix), novel_classes, strict=True))

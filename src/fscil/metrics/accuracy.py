"""Accuracies over all, base and novel classes, in percent (paper section 3.1).

Sessions are counted from 0 here: session 0 is the base session, which the paper calls task 1.
"""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix


def aacc_per_session(matrix: AccuracyMatrix) -> list[float]:
    """aAcc_i, eq. 1: images classified correctly over all images tested, for the classes seen so far.

    Weighted by test images where the matrix knows them, else by classes (eq. 3), which is the same number as long
    as every class has equally many test images (CIFAR-100 and miniImageNet, not CUB-200).
    """
    if matrix.test_counts and min(matrix.test_counts) < 1:
        raise InputError(
            f"Test counts must be positive; got {list(matrix.test_counts)}: give the test images of each session "
            f"or leave them out."
        )
    weights = matrix.test_counts or matrix.classes
    return [float(np.average(matrix.values[i, : i + 1], weights=weights[: i + 1])) for i in range(matrix.sessions)]


def aacc(matrix: AccuracyMatrix) -> float:
    """aAcc, eq. 1: the mean of aAcc_i over all sessions.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> [round(each, 2) for each in aacc_per_session(matrix)]
        [80.0, 65.33, 57.5]
        >>> round(aacc(matrix), 2)
        67.61
    """
    return fmean(aacc_per_session(matrix))


def lacc(matrix: AccuracyMatrix) -> float:
    """lAcc = aAcc of the last session."""
    return aacc_per_session(matrix)[-1]


def tacc_per_session(matrix: AccuracyMatrix) -> list[float]:
    """tAcc_i, eq. 2: the mean over sessions seen so far, each with equal weight whatever its number of classes."""
    return [fmean(matrix.values[i, : i + 1].tolist()) for i in range(matrix.sessions)]


def tacc(matrix: AccuracyMatrix) -> float:
    """tAcc, eq. 2: the mean of tAcc_i over all sessions.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> [round(each, 2) for each in tacc_per_session(matrix)]
        [80.0, 59.0, 51.67]
    """
    return fmean(tacc_per_session(matrix))


def base_acc_per_session(matrix: AccuracyMatrix) -> list[float]:
    """A_i^1: accuracy on the base classes after each session, among all classes seen (joint label space)."""
    return [float(value) for value in matrix.values[:, 0]]


def base_acc(matrix: AccuracyMatrix) -> float:
    """The mean base accuracy over all sessions, the base session included."""
    return fmean(base_acc_per_session(matrix))


def novel_acc_per_session(matrix: AccuracyMatrix) -> list[float | None]:
    """A_i^novel of eq. A2: mean accuracy on all novel classes seen so far; None in the base session, which has none.

    Every class weighs the same. The paper lets every novel session weigh the same: equal when the way is constant.
    """
    values, classes = matrix.values, matrix.classes
    ends = range(2, matrix.sessions + 1)
    return [None, *[float(np.average(values[end - 1, 1:end], weights=classes[1:end])) for end in ends]]


def novel_acc(matrix: AccuracyMatrix) -> float | None:
    """The mean novel accuracy over the incremental sessions; None for a matrix of the base session alone.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> novel_acc_per_session(matrix)
        [None, 40.0, 40.0]
    """
    return mean_defined(novel_acc_per_session(matrix))


def mean_defined(values: Sequence[float | None]) -> float | None:
    """The mean of the values that exist; None when none does (never NaN, which JSON cannot hold)."""
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None

"""What was lost since it was learned (paper section 3.3 and appendix, "Forgetting metrics").

All values are per task, for every session but the last, which has had no chance to forget; in percent. For task i,
learned in session i and measured again in the last session n:

    PD = A_n^i - A_i^i          negative when accuracy was lost (the paper's formula, read literally)
    RPD = PD / A_i^i            negative when accuracy was lost
    KR = A_n^i / A_i^i          100 when everything was kept
    F = max_j A_j^i - min_j A_j^i over sessions j since it was learned; a gain counts like a loss

A task learned with 0 % accuracy has no KR and no RPD (division by zero): None, and left out of the mean.
"""

import numpy as np

from fscil.core.matrix import AccuracyMatrix
from fscil.metrics.accuracy import aacc_per_session, mean_defined

ZERO = 1e-9  # percent: less than one image of any test set, so a smaller accuracy is zero with rounding noise


def performance_drop_per_task(matrix: AccuracyMatrix) -> list[float]:
    """PD of every task but the last: its accuracy at the end minus its accuracy when learned."""
    return [last - first for first, last in _first_and_last(matrix)]


def performance_drop(matrix: AccuracyMatrix) -> float | None:
    """The mean PD over tasks; None for a matrix of the base session alone.

    Examples:
        The base classes fall from 80 to 75, those of session 1 from 40 to 35.

        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> performance_drop(matrix)
        -5.0
    """
    return mean_defined(performance_drop_per_task(matrix))


def knowledge_rate_per_task(matrix: AccuracyMatrix) -> list[float | None]:
    """KR of every task but the last, in percent of its accuracy when learned; None where that was 0."""
    return [100.0 * last / first if first > ZERO else None for first, last in _first_and_last(matrix)]


def knowledge_rate(matrix: AccuracyMatrix) -> float | None:
    """The mean KR over the tasks that have one; None when none has.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> knowledge_rate(matrix)
        90.625
    """
    return mean_defined(knowledge_rate_per_task(matrix))


def relative_drop_per_task(matrix: AccuracyMatrix) -> list[float | None]:
    """RPD of every task but the last, in percent of its accuracy when learned; None where that was 0."""
    return [100.0 * (last - first) / first if first > ZERO else None for first, last in _first_and_last(matrix)]


def relative_drop(matrix: AccuracyMatrix) -> float | None:
    """The mean RPD over the tasks that have one; None when none has."""
    return mean_defined(relative_drop_per_task(matrix))


def max_forgetting_per_task(matrix: AccuracyMatrix) -> list[float]:
    """F of every task but the last: the widest gap in its accuracy since it was learned."""
    columns = [matrix.values[i:, i] for i in range(matrix.sessions - 1)]
    return [float(np.max(column) - np.min(column)) for column in columns]


def max_forgetting(matrix: AccuracyMatrix) -> float | None:
    """The mean F over tasks; None for a matrix of the base session alone."""
    return mean_defined(max_forgetting_per_task(matrix))


def aacc_drop(matrix: AccuracyMatrix) -> float:
    """aAcc of the first session minus that of the last: what most FSCIL tables call PD. Not the paper's PD."""
    per_session = aacc_per_session(matrix)
    return per_session[0] - per_session[-1]


def _first_and_last(matrix: AccuracyMatrix) -> list[tuple[float, float]]:
    """Per task but the last: accuracy when learned, accuracy after the last session."""
    return [(float(matrix.values[i, i]), float(matrix.values[-1, i])) for i in range(matrix.sessions - 1)]

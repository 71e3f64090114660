"""The metrics document: every metric of one accuracy matrix under fixed keys."""

from typing import TypedDict

from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import accuracy, balance, forgetting


class Summary(TypedDict):
    """All in percent. None: the matrix cannot define it (no novel session yet, or a division by zero everywhere)."""

    aacc: float  # mean of aacc_per_session
    aacc_per_session: list[float]  # correct over tested, all classes seen so far
    lacc: float  # aacc of the last session
    tacc: float  # sessions weigh alike
    gacc_grid: float  # as published; compare with published numbers
    gacc_exact: float  # the integral in closed form
    gacc_grid_per_session: list[float]
    gacc_exact_per_session: list[float]
    hacc: float | None  # mean over incremental sessions
    base: float  # mean over all sessions
    novel: float | None  # mean over incremental sessions
    pd: float | None  # mean over tasks but the last; negative: lost
    kr: float | None  # mean over tasks but the last; 100: all kept
    rpd: float | None  # mean over tasks but the last; negative: lost
    forgetting: float | None  # mean over tasks but the last; 0: never changed


def summary(matrix: AccuracyMatrix, steps: int | None = None) -> Summary:
    """Every metric of the matrix, ready for JSON; `steps` as in `gacc_grid_per_session`.

    Examples:
        >>> from fscil import AccuracyMatrix
        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> found = summary(matrix)
        >>> round(found["gacc_grid"], 2), round(found["aacc"], 2), found["novel"]
        (55.35, 67.61, 40.0)
    """
    return Summary(
        aacc=accuracy.aacc(matrix),
        aacc_per_session=accuracy.aacc_per_session(matrix),
        lacc=accuracy.lacc(matrix),
        tacc=accuracy.tacc(matrix),
        gacc_grid=balance.gacc_grid(matrix, steps),
        gacc_exact=balance.gacc_exact(matrix),
        gacc_grid_per_session=balance.gacc_grid_per_session(matrix, steps),
        gacc_exact_per_session=balance.gacc_exact_per_session(matrix),
        hacc=balance.hacc(matrix),
        base=accuracy.base_acc(matrix),
        novel=accuracy.novel_acc(matrix),
        pd=forgetting.performance_drop(matrix),
        kr=forgetting.knowledge_rate(matrix),
        rpd=forgetting.relative_drop(matrix),
        forgetting=forgetting.max_forgetting(matrix),
    )

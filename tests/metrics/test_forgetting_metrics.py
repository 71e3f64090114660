"""PD, KR, RPD and F on matrices worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from metric_matrices import greedy, greedy_nf, lazy, matrices

from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import (
    aacc_drop,
    knowledge_rate,
    knowledge_rate_per_task,
    max_forgetting,
    max_forgetting_per_task,
    performance_drop,
    performance_drop_per_task,
    relative_drop,
    relative_drop_per_task,
)

# Task 0 falls and recovers a little, task 1 improves, task 2 is learned last.
HAND = AccuracyMatrix.from_lists([[80], [50, 40], [60, 50, 30]], [10, 5, 5])


def test_by_hand() -> None:
    assert performance_drop_per_task(HAND) == [-20, 10]
    assert performance_drop(HAND) == -5
    assert knowledge_rate_per_task(HAND) == pytest.approx([75, 125])
    assert knowledge_rate(HAND) == pytest.approx(100)
    assert relative_drop_per_task(HAND) == pytest.approx([-25, 25])
    assert relative_drop(HAND) == pytest.approx(0)
    assert max_forgetting_per_task(HAND) == [30, 10]  # max - min, whichever came first, as the paper writes it
    assert max_forgetting(HAND) == 20
    assert aacc_drop(HAND) == pytest.approx(80 - (600 + 250 + 150) / 20)


def test_a_session_counts_from_when_it_was_learned() -> None:
    """The off-by-one of a well-known library: a task's own first accuracy belongs to its maximum."""
    matrix = AccuracyMatrix.from_lists([[90], [90, 70], [90, 20, 10]], [10, 5, 5])
    assert max_forgetting_per_task(matrix) == [0, 50]
    assert performance_drop_per_task(matrix) == [0, -50]


def test_tasks_learned_with_zero_accuracy_have_no_ratio() -> None:
    matrix = AccuracyMatrix.from_lists([[80], [60, 0], [40, 30, 20]], [10, 5, 5])
    assert knowledge_rate_per_task(matrix) == [50, None]
    assert relative_drop_per_task(matrix) == [-50, None]
    assert (knowledge_rate(matrix), relative_drop(matrix)) == (50, -50)
    assert performance_drop_per_task(matrix) == [-40, 30]


def test_nothing_ever_learned_gives_none() -> None:
    matrix = AccuracyMatrix.from_lists([[0], [0, 0]], [10, 5])
    assert (knowledge_rate(matrix), relative_drop(matrix)) == (None, None)
    assert (performance_drop(matrix), max_forgetting(matrix)) == (0, 0)


def test_base_session_alone_gives_none() -> None:
    alone = AccuracyMatrix.from_lists([[85]], [60])
    assert performance_drop_per_task(alone) == []
    assert [performance_drop(alone), knowledge_rate(alone), relative_drop(alone), max_forgetting(alone)] == [None] * 4
    assert aacc_drop(alone) == 0


def test_corner_cases_of_the_paper() -> None:
    assert knowledge_rate_per_task(lazy()) == [100, *[None] * 7]
    assert performance_drop_per_task(lazy()) == [0] * 8
    assert performance_drop_per_task(greedy()) == [-85, *[-100] * 7]
    assert knowledge_rate(greedy()) == 0
    assert relative_drop(greedy()) == -100
    assert performance_drop_per_task(greedy_nf()) == [-85, *[0] * 7]
    assert knowledge_rate_per_task(greedy_nf()) == [0, *[100] * 7]


@given(matrices(min_sessions=2))
def test_relations(matrix: AccuracyMatrix) -> None:
    drops, rates = performance_drop_per_task(matrix), knowledge_rate_per_task(matrix)
    for drop, rate, relative, widest in zip(
        drops, rates, relative_drop_per_task(matrix), max_forgetting_per_task(matrix), strict=True
    ):
        assert widest >= abs(drop)
        assert (rate is None) == (relative is None)
        if rate is not None and relative is not None:
            assert rate >= 0
            assert relative == pytest.approx(rate - 100, rel=1e-9, abs=1e-6)

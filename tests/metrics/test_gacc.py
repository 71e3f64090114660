"""gAcc and hAcc: closed form, properties, and the cases the paper leaves open."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_matrices import CUB, MINI, accuracies, lazy, matrices
from scipy.integrate import quad

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import (
    aacc_per_session,
    gacc_at,
    gacc_curve,
    gacc_exact,
    gacc_exact_per_session,
    gacc_grid,
    gacc_grid_per_session,
    grid_steps,
    hacc,
    hacc_per_session,
    novel_acc_per_session,
    tacc_per_session,
)

alphas = st.floats(0.0, 1.0, allow_nan=False, allow_subnormal=False)


def definition(matrix: AccuracyMatrix, session: int, alpha: float) -> float:
    """Eq. 4 with a weight per class, image by image in spirit: an independent reading of the definition."""
    weights = [alpha] * matrix.classes[0]
    values = [matrix.values[session, 0]] * matrix.classes[0]
    for j in range(1, session + 1):
        weights += [1.0] * matrix.classes[j]
        values += [matrix.values[session, j]] * matrix.classes[j]
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


@given(matrices(), alphas.filter(lambda alpha: alpha > 1e-6))
def test_gacc_at_weighs_classes(matrix: AccuracyMatrix, alpha: float) -> None:
    expected = [definition(matrix, i, alpha) for i in range(matrix.sessions)]
    assert gacc_at(matrix, alpha) == pytest.approx(expected, abs=1e-9)


@given(matrices(constant_way=True, min_sessions=2), alphas.filter(lambda alpha: alpha > 1e-6))
def test_gacc_at_is_equation_4_for_a_constant_way(matrix: AccuracyMatrix, alpha: float) -> None:
    r = matrix.classes[0] / matrix.classes[1]
    for i, value in enumerate(gacc_at(matrix, alpha)):
        row = matrix.values[i]
        expected = (alpha * r * row[0] + row[1 : i + 1].sum()) / (alpha * r + i)
        assert value == pytest.approx(expected, abs=1e-9)


@given(matrices())
def test_closed_form_is_the_integral(matrix: AccuracyMatrix) -> None:
    for i, value in enumerate(gacc_exact_per_session(matrix)):
        if i == 0:
            assert value == matrix.values[0, 0]
            continue
        integral, _ = quad(lambda alpha, i=i: definition_fast(matrix, i, alpha), 0.0, 1.0, epsabs=1e-11, epsrel=1e-12)
        assert value == pytest.approx(integral, abs=1e-9)


def definition_fast(matrix: AccuracyMatrix, session: int, alpha: float) -> float:
    weights = np.array(matrix.classes[: session + 1], dtype=float)
    weights[0] *= alpha
    return float(weights @ matrix.values[session, : session + 1] / weights.sum())


@given(matrices(constant_way=True, min_sessions=2))
def test_closed_form_as_usually_written(matrix: AccuracyMatrix) -> None:
    """b + (S - n b)/r ln((r + n)/n) with n novel sessions, their sum S and r = |Y_1|/|Y_novel|."""
    r = matrix.classes[0] / matrix.classes[1]
    for n, value in enumerate(gacc_exact_per_session(matrix)):
        b, total = matrix.values[n, 0], matrix.values[n, 1 : n + 1].sum()
        expected = b + (total - n * b) / r * math.log((r + n) / n) if n else b
        assert value == pytest.approx(expected, abs=1e-9)


@given(matrices(), alphas)
def test_bounds(matrix: AccuracyMatrix, alpha: float) -> None:
    for i in range(matrix.sessions):
        row = matrix.values[i, : i + 1]
        low, high = row.min() - 1e-9, row.max() + 1e-9
        assert low <= gacc_at(matrix, alpha)[i] <= high
        assert low <= gacc_exact_per_session(matrix)[i] <= high
        assert (low <= gacc_grid_per_session(matrix)[i] <= high) or i == 0  # the published base session falls below


@given(matrices(min_sessions=2))
def test_alpha_0_is_novel_accuracy(matrix: AccuracyMatrix) -> None:
    assert gacc_at(matrix, 0.0)[1:] == pytest.approx(novel_acc_per_session(matrix)[1:], abs=1e-9)


@given(matrices())
def test_alpha_1_is_aacc_when_classes_have_equally_many_images(matrix: AccuracyMatrix) -> None:
    counted = AccuracyMatrix(matrix.values, matrix.classes, tuple(20 * c for c in matrix.classes))
    assert gacc_at(matrix, 1.0) == pytest.approx(aacc_per_session(matrix), abs=1e-9)
    assert gacc_at(matrix, 1.0) == pytest.approx(aacc_per_session(counted), abs=1e-9)


def test_alpha_1_is_not_aacc_when_images_differ() -> None:
    matrix = AccuracyMatrix.from_lists([[80.0], [80.0, 40.0]], [100, 10], [2864, 279])
    assert gacc_at(matrix, 1.0)[1] == pytest.approx((100 * 80 + 10 * 40) / 110)
    assert aacc_per_session(matrix)[1] == pytest.approx((2864 * 80 + 279 * 40) / 3143)


@given(matrices(constant_way=True, min_sessions=2))
def test_alpha_1_over_r_is_tacc(matrix: AccuracyMatrix) -> None:
    alpha = matrix.classes[1] / matrix.classes[0]
    if alpha <= 1.0:
        assert gacc_at(matrix, alpha) == pytest.approx(tacc_per_session(matrix), abs=1e-9)


@given(st.data(), st.floats(0.0, 1.0), alphas)
def test_linear_in_the_accuracies(data: st.DataObject, share: float, alpha: float) -> None:
    first = data.draw(matrices())
    second = data.draw(matrices(classes=first.classes))
    mixed = AccuracyMatrix(np.clip(share * first.values + (1 - share) * second.values, 0, 100), first.classes)
    for metric in (gacc_exact, gacc_grid, lambda m: gacc_at(m, alpha)[-1]):
        assert metric(mixed) == pytest.approx(share * metric(first) + (1 - share) * metric(second), abs=1e-9)


@given(matrices(constant_way=True, min_sessions=3), st.randoms(use_true_random=False))
def test_order_of_novel_sessions_in_a_row_is_irrelevant(matrix: AccuracyMatrix, random: object) -> None:
    rows = matrix.to_lists()
    for row in rows:
        novel = row[1:]
        random.shuffle(novel)  # type: ignore[attr-defined]
        row[1:] = novel
    shuffled = AccuracyMatrix.from_lists(rows, matrix.classes)
    assert gacc_exact_per_session(shuffled) == pytest.approx(gacc_exact_per_session(matrix), abs=1e-9)
    assert gacc_grid_per_session(shuffled) == pytest.approx(gacc_grid_per_session(matrix), abs=1e-9)
    assert hacc_per_session(shuffled)[1:] == pytest.approx(hacc_per_session(matrix)[1:], abs=1e-9)


@given(matrices(min_sessions=2), st.data())
def test_moving_classes_with_their_accuracy_between_sessions_changes_nothing(
    matrix: AccuracyMatrix, data: st.DataObject
) -> None:
    """A novel session split in two with equal accuracy is the same novel classes: only classes count, not sessions."""
    classes = [2 * c for c in matrix.classes]
    split = [classes[0], *(c // 2 for c in classes[1:] for _ in range(2))]
    last = matrix.values[-1]
    row = [last[0], *(v for v in last[1:] for _ in range(2))]
    rows = [[0.0] * (i + 1) for i in range(len(split) - 1)] + [row]
    finer = AccuracyMatrix.from_lists(rows, split)
    alpha = data.draw(alphas)
    assert gacc_exact_per_session(finer)[-1] == pytest.approx(gacc_exact_per_session(matrix)[-1], abs=1e-9)
    assert gacc_at(finer, alpha)[-1] == pytest.approx(gacc_at(matrix, alpha)[-1], abs=1e-9)


def test_published_grids() -> None:
    assert (grid_steps(MINI), grid_steps(CUB)) == (12, 10)


@pytest.mark.parametrize(
    ("classes", "steps"),
    [
        ((60, 7, 7), 9),  # r = 8.57
        ((50, 3), 17),  # r = 16.67
        ((4, 8, 8), 1),  # a base smaller than the way
        ((60, 4, 6), 12),  # the mean way is 5
        ((60, 5, 5, 3), 14),  # r = 13.85
        ((9, 1), 9),  # way 1
        ((60,), None),
    ],
)
def test_grid_steps_round_up(classes: tuple[int, ...], steps: int | None) -> None:
    assert grid_steps(classes) == steps


@given(st.integers(1, 10**6), st.lists(st.integers(1, 10**4), min_size=1, max_size=20))
def test_grid_steps_are_exact(base: int, novel: list[int]) -> None:
    assert grid_steps([base, *novel]) == math.ceil(Fraction(base * len(novel), sum(novel)))


def test_grid_by_hand() -> None:
    """r = 2: alpha = 0, 1/2, 1 weigh the base 0, 1, 2 against one novel session."""
    matrix = AccuracyMatrix.from_lists([[80.0], [60.0, 30.0]], [10, 5])
    after_base = (0 / 2 + 80 + 80 / 2) / 2
    after_one = (30 / 2 + (60 + 30) / 2 + (2 * 60 + 30) / 3 / 2) / 2
    assert gacc_grid_per_session(matrix) == pytest.approx([after_base, after_one])
    assert gacc_grid(matrix) == pytest.approx((after_base + after_one) / 2)


@given(matrices(min_sessions=2))
@pytest.mark.slow
def test_fine_grid_tends_to_the_integral_except_in_the_base_session(matrix: AccuracyMatrix) -> None:
    grid, exact = gacc_grid_per_session(matrix, steps=400), gacc_exact_per_session(matrix)
    assert grid[1:] == pytest.approx(exact[1:], abs=0.01)
    assert grid[0] == pytest.approx(exact[0] * (1 - 1 / 800), abs=1e-9)


def test_steps_keep_early_rows_unchanged() -> None:
    """A matrix cut after session 2 gets, with the steps of the whole plan, the rows of the whole matrix."""
    classes = (60, 4, 6, 9)
    whole = AccuracyMatrix.from_lists([[80], [70, 40], [60, 30, 50], [55, 25, 45, 35]], classes)
    cut = AccuracyMatrix.from_lists(whole.to_lists()[:2], classes[:2])
    steps = grid_steps(classes)
    assert gacc_grid_per_session(cut, steps) == gacc_grid_per_session(whole)[:2]
    assert gacc_grid_per_session(cut) != gacc_grid_per_session(whole)[:2]


@given(accuracies)
def test_base_session_alone(accuracy: float) -> None:
    alone = AccuracyMatrix.from_lists([[accuracy]], [60])
    assert gacc_exact_per_session(alone) == [accuracy]
    assert gacc_grid_per_session(alone) == [accuracy]
    assert gacc_grid(alone, steps=12) == pytest.approx(accuracy * 23 / 24)
    assert gacc_at(alone, 0.0) == [accuracy]
    assert gacc_at(alone, 0.0, at_zero="published") == [0.0]
    assert hacc_per_session(alone) == [None]
    assert hacc(alone) is None


def test_curve_is_the_mean_over_sessions() -> None:
    matrix = AccuracyMatrix.from_lists([[80.0], [60.0, 30.0]], [10, 5])
    assert gacc_curve(matrix, [0.0, 0.5, 1.0]) == pytest.approx([(80 + 30) / 2, (80 + 45) / 2, (80 + 50) / 2])
    assert gacc_curve(matrix, [0.0], at_zero="published") == pytest.approx([15.0])


def test_hacc_by_hand() -> None:
    matrix = AccuracyMatrix.from_lists([[80], [60, 30], [0, 0, 0]], [10, 5, 5])
    assert hacc_per_session(matrix) == [None, pytest.approx(40.0), 0.0]
    assert hacc(matrix) == pytest.approx(20.0)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan])
def test_alpha_outside_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match=r"alpha is .* between 0"):
        gacc_at(lazy(), alpha)


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError, match="at_zero is 'zero'"):
        gacc_at(lazy(), 0.0, at_zero="zero")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="0 steps; give at least 1"):
        gacc_grid(lazy(), steps=0)

"""From printed rows back to accuracies: the truth must lie within the bounds, and the bounds must be tight."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import aacc_per_session, gacc_exact, gacc_grid, novel_acc_per_session
from fscil.paper.inversion import aacc_row, gacc_weights, inversions, invert, task_rounding
from fscil.paper.printed import PrintedCell, datasets, table

PLANS = sorted(datasets())
accuracy = st.floats(0.0, 100.0, allow_nan=False)


@st.composite
def matrices(draw: st.DrawFn, plan: str) -> AccuracyMatrix:
    classes = datasets()[plan].classes
    rows = [draw(st.lists(accuracy, min_size=i + 1, max_size=i + 1)) for i in range(len(classes))]
    return AccuracyMatrix.from_lists(rows, classes)


def printed(values: list[float | None], digits: int) -> list[PrintedCell]:
    return [PrintedCell(f"{value:.{digits}f}") for value in values if value is not None]


@pytest.mark.parametrize("plan", PLANS)
@given(data=st.data(), digits=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_the_truth_lies_within_the_bounds(plan: str, data: st.DataObject, digits: int) -> None:
    matrix = data.draw(matrices(plan))
    found = invert(
        datasets()[plan],
        printed(list(aacc_per_session(matrix)), digits),
        printed(novel_acc_per_session(matrix), digits),
    )
    slack = 1e-9
    for i, bounds in enumerate(found.base):
        assert bounds.low - slack <= matrix.values[i, 0] <= bounds.high + slack
    for bounds, value in ((found.gacc_grid, gacc_grid(matrix)), (found.gacc_exact, gacc_exact(matrix))):
        assert bounds.low - slack <= value <= bounds.high + slack
        assert (bounds.high - bounds.low) / 2 <= 0.5 * 10.0**-digits + slack  # as good as the cells themselves


def test_the_grid_weights_by_hand() -> None:
    """Two sessions, r = 12: trapezoids of k/(k + 1)."""
    base, novel = gacc_weights(datasets()["mini"])["grid"][1]
    shares = [1 / (k + 1) for k in range(13)]
    assert novel == pytest.approx((shares[0] / 2 + sum(shares[1:-1]) + shares[-1] / 2) / 12)
    assert base + novel == pytest.approx(1)
    assert gacc_weights(datasets()["mini"])["grid"][0] == (pytest.approx(1 - 1 / 24), 0)


def test_rounding_tasks_first_touches_only_what_it_can() -> None:
    """500 test images give steps of 0.2 %, which rounding to 0.1 % leaves alone; 6000 and CUB-200's do not."""
    mini, cub = task_rounding(datasets()["mini"]), task_rounding(datasets()["cub200"])
    base_share = sum(base for base, _ in gacc_weights(datasets()["mini"])["grid"]) / 9
    assert mini == pytest.approx(0.05 * base_share)
    assert mini < cub < 0.05 + 1e-12


def test_every_row_that_can_be_inverted_is() -> None:
    novel_rows = [(name, row.key) for name in ("novel-mini", "novel-cifar") for row in table(name).rows]
    assert len(inversions()) == len(novel_rows) == 25
    for (dataset, method), found in inversions().items():
        cells = aacc_row(dataset, method)
        assert cells is not None
        again = aacc_per_session(found.matrix)
        assert again == pytest.approx([cell.value for cell in cells], abs=1e-6), (dataset, method)
        assert found.gacc_grid.low <= gacc_grid(found.matrix) <= found.gacc_grid.high
        assert 0.3 < gacc_exact(found.matrix) - gacc_grid(found.matrix) < 0.6


def test_most_published_gacc_values_come_out_to_a_hundredth() -> None:
    gacc = {"mini": table("novel-mini"), "cifar100": table("novel-cifar")}
    off = []
    for (dataset, method), found in inversions().items():
        row = gacc[dataset].row(method)
        assert row is not None
        off.append(abs(row.cells["gacc"].value - found.gacc_grid.middle))
    assert sum(value <= 0.02 for value in off) >= 20


def test_rows_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(InputError, match=r"CIFAR-100 has 9 sessions; give 9 aAcc and 8 novel cells, not 1 and 1\."):
        invert(datasets()["cifar100"], [PrintedCell("80.0")], [PrintedCell("30.0")])

"""The statistics against scipy's own tests and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from bench_documents import made_up
from scipy import stats

from fscil.results.significance import Difference, compare, corrected, paired, rank_agreement


def test_paired_t_against_scipy() -> None:
    rng = np.random.default_rng(0)
    for size in (2, 3, 10):
        ours, theirs = rng.normal(1, 1, size), rng.normal(0, 1, size)
        found, expected = paired(list(ours - theirs)), stats.ttest_rel(ours, theirs)
        interval = expected.confidence_interval(0.95)
        assert found.p == pytest.approx(expected.pvalue)
        assert found.half is not None
        assert (found.mean - found.half, found.mean + found.half) == pytest.approx(tuple(interval))


def test_three_draws_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t = 3.464, and t(0.975, 2) = 4.303."""
    found = paired([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.302653 / np.sqrt(3), abs=1e-5)
    assert found.p == pytest.approx(0.0741799, abs=1e-6)


@pytest.mark.parametrize("gaps", [[1.5], [1.5, 1.5, 1.5]])
def test_what_the_draws_cannot_judge_is_not_judged(gaps: list[float]) -> None:
    found = corrected({"x": paired(gaps)})["x"]
    assert (found.mean, found.half, found.p, found.adjusted) == (1.5, None, None, None)
    assert not found.clear
    assert found.verdict == "not told apart"


def test_no_difference_on_any_draw_is_judged_equal() -> None:
    found = paired([0.0, 0.0, 0.0])
    assert found.judged
    assert not found.clear


def family(*values: float | None) -> dict[str, Difference]:
    return {name: Difference(1.0, 3, 0.5, 1.0, p) for name, p in zip("abcd", values, strict=False)}


def test_holm_by_hand() -> None:
    """0.01, 0.04, 0.03, 0.005 of four: 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 raised to the 0.06 before it."""
    found = corrected(family(0.01, 0.04, 0.03, 0.005)).values()
    assert [d.adjusted for d in found] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert [d.clear for d in found] == [True, False, False, True]
    assert [d.adjusted for d in corrected(family(0.6, 0.6)).values()] == [1.0, 1.0]


def test_an_unjudged_one_does_not_count_in_the_family() -> None:
    assert [d.adjusted for d in corrected(family(0.03, None)).values()] == [0.03, None]


def test_pairs_share_their_shots() -> None:
    """Luck that both methods share leaves the difference; unpaired it would drown it."""
    rows = made_up(["lazy", "prototypes", "cec", "yourself"], draws=4).comparison
    found = {row.method: row.differences["gacc_grid"] for row in rows.rows if row.differences}
    assert set(found) == {"lazy", "cec", "yourself"}
    ours, theirs = ([r.metrics["gacc_grid"] for r in rows.row(name).results] for name in ("yourself", "prototypes"))
    expected = stats.ttest_rel(ours, theirs)
    assert found["yourself"].p == pytest.approx(expected.pvalue)
    assert found["yourself"].verdict == "above"
    assert found["lazy"].verdict == "below"
    assert found["cec"].verdict == "not told apart"


def test_only_shared_draws_are_compared() -> None:
    found = compare({"a": {0: 1.0, 1: 2.0}, "b": {0: 2.0, 1: 4.0, 2: 100.0}}, "a")
    assert (found["b"].draws, found["b"].mean) == (2, 1.5)
    assert compare({"a": {0: 1.0}, "b": {1: 2.0}}, "a") == {}


def test_rank_agreement() -> None:
    assert rank_agreement([1, 2, 3, 4], [10, 20, 30, 40]) == 1
    assert rank_agreement([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    assert rank_agreement([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)  # two of three pairs agree

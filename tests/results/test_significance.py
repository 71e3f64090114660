"""The statistics against scipy's own tests and numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from bench_documents import made_up
from scipy import stats

from fscil.results.significance import Comparison, compare, corrected, paired, rank_agreement


def test_paired_t_against_scipy() -> None:
    rng = np.random.default_rng(0)
    for size in (2, 3, 10):
        ours, theirs = rng.normal(1, 1, size), rng.normal(0, 1, size)
        found, expected = paired("x", list(ours - theirs)), stats.ttest_rel(ours, theirs)
        interval = expected.confidence_interval(0.95)
        assert found.p == pytest.approx(expected.pvalue)
        assert found.half is not None
        assert (found.mean - found.half, found.mean + found.half) == pytest.approx(tuple(interval))


def test_three_draws_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t = 3.464, and t(0.975, 2) = 4.303."""
    found = paired("x", [1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.302653 / np.sqrt(3), abs=1e-5)
    assert found.p == pytest.approx(0.0741799, abs=1e-6)


@pytest.mark.parametrize("gaps", [[1.5], [1.5, 1.5, 1.5]])
def test_what_the_draws_cannot_judge_is_not_judged(gaps: list[float]) -> None:
    found = corrected([paired("x", gaps)])[0]
    assert (found.mean, found.half, found.p, found.adjusted) == (1.5, None, None, None)
    assert not found.clear
    assert found.verdict == "not told apart"


def test_holm_by_hand() -> None:
    """0.01, 0.04, 0.03, 0.005 of four: 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 raised to the 0.06 before it."""
    given = [Comparison(name, 1.0, 3, 1.0, p) for name, p in zip("abcd", (0.01, 0.04, 0.03, 0.005), strict=True)]
    assert [c.adjusted for c in corrected(given)] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert [c.clear for c in corrected(given)] == [True, False, False, True]
    large = corrected([Comparison(name, 1.0, 3, 1.0, 0.6) for name in "ab"])
    assert [c.adjusted for c in large] == [1.0, 1.0]


def test_an_unjudged_one_does_not_count_in_the_family() -> None:
    given = [Comparison("a", 1.0, 3, 1.0, 0.03), Comparison("b", 1.0, 3)]
    assert [c.adjusted for c in corrected(given)] == [0.03, None]


def test_pairs_share_their_shots() -> None:
    """Luck that both methods share leaves the difference; unpaired it would drown it."""
    bench = made_up(["lazy", "prototypes", "cec", "yourself"], draws=4)
    found = {c.method: c for c in compare(bench, "prototypes", "gacc_grid")}
    assert set(found) == {"lazy", "cec", "yourself"}
    ours, theirs = bench.values("yourself", "gacc_grid"), bench.values("prototypes", "gacc_grid")
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values()))
    assert found["yourself"].p == pytest.approx(expected.pvalue)
    assert found["yourself"].verdict == "above"
    assert found["lazy"].verdict == "below"
    assert found["cec"].verdict == "not told apart"


def test_only_shared_draws_are_compared() -> None:
    whole, short = made_up(["prototypes", "yourself"], draws=3), made_up(["prototypes", "yourself"], draws=2)
    mixed = dataclasses.replace(whole, rows=(short.rows[0], whole.rows[1]))
    assert compare(mixed, "prototypes", "aacc")[0].draws == 2


def test_rank_agreement() -> None:
    names = list("abcd")
    assert rank_agreement(names, names) == 1
    assert rank_agreement(names, names[::-1]) == -1
    assert rank_agreement(["a", "b", "c"], ["a", "c", "b"]) == pytest.approx(1 / 3)  # two of three pairs agree
    assert rank_agreement(["a", "b"], ["a", "b"]) is None

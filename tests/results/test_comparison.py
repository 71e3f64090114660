"""The comparison against numpy and scipy: means, spreads, paired differences, who is best."""

from __future__ import annotations

import numpy as np
import pytest
from report_documents import pair, result
from scipy import stats

from fscil.core.errors import InputError
from fscil.metrics import novel_acc_per_session
from fscil.results.comparison import compare_methods


def test_means_spreads_and_paired_differences_match_numpy() -> None:
    results = pair(draws=4)
    table = compare_methods(results)
    ours, theirs = results[4:], results[:4]
    row = table.row("yourself")
    for key in ("aacc", "lacc", "gacc_grid", "gacc_exact", "hacc", "novel", "pd", "kr", "forgetting"):
        values = np.array([r.metrics[key] for r in ours])
        gaps = values - [r.metrics[key] for r in theirs]
        cell, gap = row.cells[key], row.differences[key]
        assert cell is not None
        assert cell.mean == pytest.approx(values.mean())
        assert cell.std == pytest.approx(values.std(ddof=1))
        assert gap.mean == pytest.approx(gaps.mean())
        assert gap.error == pytest.approx(gaps.std(ddof=1) / 2, abs=1e-9)
        assert (cell.draws, gap.draws) == (4, 4)
    last = [novel_acc_per_session(r.matrix)[-1] for r in ours]
    assert row.cells["novel_last"].mean == pytest.approx(np.mean(last))
    assert row.cells["base_first"].mean == pytest.approx(np.mean([r.matrix.values[0, 0] for r in ours]))
    assert row.cells["seconds_sessions"].mean == pytest.approx(11.5)
    assert table.row("prototypes").differences == {}


def test_differences_pair_only_shared_draws() -> None:
    results = [result("prototypes", draw) for draw in (0, 1, 2)]
    results += [result("yourself", draw, novel=66.0) for draw in (2, 1, 7)]
    gap = compare_methods(results).row("yourself").differences["novel"]
    expected = [results[4].metrics["novel"] - results[1].metrics["novel"]]
    expected.append(results[3].metrics["novel"] - results[2].metrics["novel"])
    assert gap.draws == 2
    assert gap.mean == pytest.approx(np.mean(expected))
    apart = [result("prototypes", 0), result("yourself", 1)]
    assert compare_methods(apart).row("yourself").differences == {}


def test_the_baseline_is_the_plain_network_or_the_first_or_the_one_named() -> None:
    results = [result("a"), result("prototypes"), result("b")]
    assert compare_methods(results).baseline == "prototypes"
    assert [row.method for row in compare_methods(results).rows] == ["prototypes", "a", "b"]
    assert compare_methods([results[0], results[2]]).baseline == "a"
    assert [row.method for row in compare_methods(results, baseline="b").rows] == ["b", "a", "prototypes"]
    assert compare_methods(results[:1]).baseline is None
    with pytest.raises(InputError, match="did you mean 'prototypes'"):
        compare_methods(results, baseline="prototype")


def test_best_follows_the_direction_of_the_metric() -> None:
    table = compare_methods([result("calm", noise=0.0), result("wild", noise=3.0, novel=70.0)])
    assert table.best("novel") == {"wild"}
    assert table.best("forgetting") == {"calm"}
    assert table.best("seconds_base") == frozenset()  # equal in both
    assert table.best("novel", left_out=["wild"]) == frozenset()  # nothing is left to compare with
    assert [row.method for row in table.ranking("novel")] == ["wild", "calm"]
    assert [row.method for row in table.ranking("forgetting")] == ["calm", "wild"]


def test_every_score_is_a_family_of_its_own_corrected_by_holm() -> None:
    """Two methods against the baseline: the smaller p counts twice, the larger once."""
    results = pair(draws=4)
    results += [result("third", draw, novel=61.0 + draw, base=84.0 + draw) for draw in range(4)]
    table = compare_methods(results)
    for key in ("gacc_grid", "novel", "base_last"):
        gaps = [table.row(method).differences[key] for method in ("yourself", "third")]
        for method, gap in zip(("yourself", "third"), gaps, strict=True):
            ours, theirs = ([r.quantity(key) for r in table.row(name).results] for name in (method, "prototypes"))
            assert gap.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
        small, large = sorted(gaps, key=lambda gap: gap.p or 0.0)
        assert small.adjusted == pytest.approx(2 * small.p)
        assert large.adjusted == pytest.approx(max(2 * small.p, large.p))
        assert all(gap.clear == (gap.adjusted < 0.05) for gap in gaps)


def test_what_the_draws_leave_untouched_they_do_not_judge() -> None:
    same = [result("prototypes", draw, noise=0.0) for draw in range(3)]
    better = [result("yourself", draw, noise=0.0, base=85.0) for draw in range(3)]
    gap = compare_methods([*same, *better]).row("yourself").differences["base_first"]
    assert gap.mean == pytest.approx(1.0)
    assert not gap.judged
    assert not gap.clear


def test_metrics_that_do_not_exist_stay_empty() -> None:
    row = compare_methods([result(classes=(60,), draw=draw) for draw in (0, 1)]).rows[0]
    assert row.cells["novel"] is None
    assert row.cells["pd"] is None
    assert row.cells["base_last"].mean == row.cells["aacc"].mean
    one = compare_methods([result()]).rows[0]
    assert one.cells["aacc"].std is None


def test_equal_titles_are_told_apart() -> None:
    rows = compare_methods([result("a", title="Same"), result("b", title="Same")]).rows
    assert [row.title for row in rows] == ["Same (a)", "Same (b)"]

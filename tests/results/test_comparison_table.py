"""The comparison against numpy: means, spreads, paired differences, who is best."""

from __future__ import annotations

import numpy as np
import pytest
from report_documents import pair, result

from fscil.core.errors import InputError
from fscil.metrics import novel_acc_per_session
from fscil.results.comparison import Difference, comparison_table


def test_means_spreads_and_paired_differences_match_numpy() -> None:
    results = pair(draws=4)
    table = comparison_table(results)
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
    gap = comparison_table(results).row("yourself").differences["novel"]
    expected = [results[4].metrics["novel"] - results[1].metrics["novel"]]
    expected.append(results[3].metrics["novel"] - results[2].metrics["novel"])
    assert gap.draws == 2
    assert gap.mean == pytest.approx(np.mean(expected))
    apart = [result("prototypes", 0), result("yourself", 1)]
    assert comparison_table(apart).row("yourself").differences == {}


def test_the_baseline_is_the_plain_network_or_the_first_or_the_one_named() -> None:
    results = [result("a"), result("prototypes"), result("b")]
    assert comparison_table(results).baseline == "prototypes"
    assert [row.method for row in comparison_table(results).rows] == ["prototypes", "a", "b"]
    assert comparison_table([results[0], results[2]]).baseline == "a"
    assert [row.method for row in comparison_table(results, baseline="b").rows] == ["b", "a", "prototypes"]
    assert comparison_table(results[:1]).baseline is None
    with pytest.raises(InputError, match="did you mean 'prototypes'"):
        comparison_table(results, baseline="prototype")


def test_best_follows_the_direction_of_the_metric() -> None:
    table = comparison_table([result("calm", noise=0.0), result("wild", noise=3.0, novel=70.0)])
    columns = {column.key: column for column in table.columns}
    assert table.best(columns["novel"]) == {"wild"}
    assert table.best(columns["forgetting"]) == {"calm"}
    assert table.best(columns["seconds_base"]) == frozenset()  # equal in both


def test_a_difference_is_clear_only_beyond_twice_its_error() -> None:
    assert Difference(1.0, 0.4, 3).clear
    assert Difference(-1.0, 0.4, 3).clear
    assert not Difference(1.0, 0.6, 3).clear
    assert not Difference(5.0, None, 1).clear
    assert not Difference(0.0, 0.0, 3).clear


def test_what_the_draws_leave_untouched_they_do_not_judge() -> None:
    same = Difference(0.2, 0.0, 3)
    assert not same.judged
    assert not same.clear
    assert Difference(0.0, 0.0, 3).judged


def test_metrics_that_do_not_exist_stay_empty() -> None:
    row = comparison_table([result(classes=(60,), draw=draw) for draw in (0, 1)]).rows[0]
    assert row.cells["novel"] is None
    assert row.cells["pd"] is None
    assert row.cells["base_last"].mean == row.cells["aacc"].mean
    one = comparison_table([result()]).rows[0]
    assert one.cells["aacc"].std is None


def test_equal_titles_are_told_apart() -> None:
    rows = comparison_table([result("a", title="Same"), result("b", title="Same")]).rows
    assert [row.title for row in rows] == ["Same (a)", "Same (b)"]

"""The comparison as plain text, and finding result files in folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_documents import document, pair, result

from fscil.core.errors import InputError
from fscil.pages.report.prose import comparison_text
from fscil.results.comparison import compare_methods
from fscil.results.result import find_results, load_results


def test_two_methods_stand_side_by_side_with_their_difference() -> None:
    results = pair()
    lines = comparison_text(results).splitlines()
    assert lines[0].startswith("YourSelf remembers the 60 base classes")
    assert lines[2].split("  ")[0] == "in percent"
    assert lines[2].split() == ["in", "percent", "ViT", "baseline", "YourSelf", "Difference"]
    row = compare_methods(results).row("yourself")
    cell, gap = row.cells["gacc_grid"], row.differences["gacc_grid"]
    (line,) = [line for line in lines if line.startswith("gAcc, grid")]
    assert f"{cell.mean:.2f} ± {cell.std:.2f}  " in line
    assert line.endswith(f"{gap.mean:+.2f} ± {gap.error:.2f} better")
    assert max(len(line) for line in lines[2:-1]) <= 100


def test_many_methods_get_a_line_each() -> None:
    results = [result(name) for name in "abcde"]
    lines = comparison_text(results).splitlines()
    assert [line[0] for line in lines[4:9]] == list("abcde")
    assert "Difference" not in "".join(lines)


def test_base_session_alone_and_one_draw() -> None:
    text = comparison_text([result(classes=(60,))])
    assert "New classes" not in text
    assert "One draw" in text


def test_folders_are_searched(tmp_path: Path) -> None:
    for draw in (1, 0):
        path = tmp_path / "yourself" / f"shots-{draw}" / "result.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(document(draw=draw)), encoding="utf-8")
    found = find_results([tmp_path, path])
    assert [result.shots_seed for result in load_results(found)] == [0, 1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"There is no result\.json in .*empty or below"):
        find_results([tmp_path / "empty"])

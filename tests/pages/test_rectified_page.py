"""The table of `rectify`: every number is that of its files, and rectified results stand in no other table."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from report_documents import document
from scipy import stats

from docs_maker.method_pages import BEGIN, END, method_pages
from docs_maker.rectified import TITLE
from docs_maker.results_page import results_page
from fscil.pages.kit.prose import number, signed
from fscil.results.durations import durations
from fscil.results.grouping import collect
from fscil.results.measured import measured
from fscil.results.result import parse_result

SHIFTS = {"teen": (7.0, 7.2, 7.1), "fecam": (-3.0, 4.0, -2.0)}  # what rectifying changes, draw by draw


def store(folder: Path, method: str, draw: int, rectify: Any = None) -> dict[str, Any]:
    """A result, rectified with the method alone as a variant, or plain."""
    base = 60.0 + draw
    options = {} if rectify is None else {"rectify": rectify}
    config = {"data": {"name": "glyphs", "shot": 5}, "options": {method: {"lr": 0.1, **options}}}
    alone = {key: document(method, draw, base=base)[key] for key in ("matrix", "metrics", "classes", "test_counts")}
    shift = SHIFTS[method][draw] if rectify else 0.0
    variants = {"not rectified": alone} if rectify else {}
    made = document(
        method, draw, base=base + shift, dataset="glyphs", recipe="glyphs", config=config, variants=variants
    )
    path = folder / ("rectified" if rectify else "plain") / method / f"shots-{draw}" / "result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made), encoding="utf-8")
    return made


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for method in SHIFTS:
        for draw in range(3):
            store(tmp_path / "results", method, draw)
            store(tmp_path / "results", method, draw, rectify=True if method == "teen" else {"layers": [3]})
    return tmp_path / "results"


def section(results: Path) -> tuple[str, list[dict[str, str]]]:
    """All before the table, and its rows by the heads of the columns."""
    before, _, text = results_page(collect(results), "../results").partition(f"## {TITLE}")
    lines = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return before, [dict(zip(lines[0], row, strict=True)) for row in lines[2:]]


def test_every_number_is_that_of_its_files(results: Path) -> None:
    _, rows = section(results)
    assert [row["Method"] for row in rows] == ["**TEEN**", "**FeCAM**"]  # the largest gain first
    for row, method in zip(rows, ("teen", "fecam"), strict=True):
        files = [json.loads((results / f"rectified/{method}/shots-{n}/result.json").read_text()) for n in range(3)]
        for key, name in (("gacc_grid", "gAcc, grid"), ("aacc", "aAcc"), ("novel", "Novel")):
            with_it = [file["metrics"][key] for file in files]
            alone = [file["variants"]["not rectified"]["metrics"][key] for file in files]
            assert row[f"{name}: alone"] == f"{number(fmean(alone))} ± {number(stdev(alone))}"
            assert row[f"{name}: rectified"] == f"{number(fmean(with_it))} ± {number(stdev(with_it))}"
            gaps = [one - other for one, other in zip(with_it, alone, strict=True)]
            assert row[f"{name}: gain"] == signed(fmean(gaps))
        assert row["Draws"] == "3"
        drawn = [f"[{n}](../results/rectified/{method}/shots-{n}/result.json)" for n in range(3)]
        assert row["Files"] == f"draw {', '.join(drawn)}"


def test_a_gain_is_clear_by_the_rule_of_all_tables(results: Path) -> None:
    _, rows = section(results)
    found = {}
    for method in SHIFTS:
        files = [json.loads((results / f"rectified/{method}/shots-{n}/result.json").read_text()) for n in range(3)]
        pairs = [(f["metrics"]["aacc"], f["variants"]["not rectified"]["metrics"]["aacc"]) for f in files]
        found[method] = float(stats.ttest_rel(*zip(*pairs, strict=True)).pvalue)
    assert 2 * min(found.values()) < 0.05 < max(found.values())  # Holm, of two rows
    assert [row["aAcc: verdict"] for row in rows] == ["clear gain", "not told apart"]


def test_rectified_results_stand_in_no_other_table(results: Path, tmp_path: Path) -> None:
    before, rows = section(results)
    assert before.count("results/plain/teen") > 0
    assert "rectified" not in before
    assert len(rows) == 2
    entries = measured(results)
    assert [len(entries[method]) for method in SHIFTS] == [1, 1]
    assert entries["teen"][0]["aacc"]["mean"] == pytest.approx(
        fmean(parse_result(store(tmp_path / "x", "teen", n)).metrics["aacc"] for n in range(3)), abs=0.01
    )
    assert len([each for each in durations(results) if each.work == "teen"]) == 1
    page = tmp_path / "docs" / "methods" / "teen.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    (text,) = method_pages(collect(results), "../../results", tmp_path / "docs").values()
    assert text.count("results/plain/teen") == 1
    assert "results/rectified" not in text


def test_false_is_no_rectification(tmp_path: Path) -> None:
    assert not parse_result(store(tmp_path, "teen", 0, rectify=False)).rectified
    assert parse_result(store(tmp_path, "teen", 0, rectify={"layers": [3]})).rectified

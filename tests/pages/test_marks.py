"""What is no system of its authors is called so wherever it stands: a reference, or a reconstruction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench_documents import METHODS, made_up
from report_documents import document, result
from typer.testing import CliRunner

from docs_maker.results_page import results_page
from fscil.cli.main import app
from fscil.experiments import recipes
from fscil.experiments.catalogue import asked
from fscil.experiments.recipes import describe_methods
from fscil.methods import MARKS, REGISTRY
from fscil.pages.bench.page import bench_html
from fscil.pages.bench.tables import scores_table
from fscil.pages.report.page import report_html
from fscil.results.grouping import collect

PAGES = Path(__file__).parents[2] / "docs" / "methods"
RECONSTRUCTIONS = [name for name, kind in REGISTRY.items() if kind.mark == "reconstruction"]
TITLE = "CEC (reconstruction)"


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if parts of CEC were unknown."""
    monkeypatch.setattr(REGISTRY["cec"], "mark", "reconstruction")
    monkeypatch.setattr(recipes, "catalogue", asked)  # what is stored knows nothing of it


def test_the_list_of_methods_says_what_a_mark_means() -> None:
    (row,) = [row for row in describe_methods() if row["name"] == "cec"]
    assert (row["title"], row["mark"]) == (TITLE, "reconstruction")
    listed = CliRunner().invoke(app, ["methods", "cec", "joint", "teen"]).stdout
    assert f"    reconstruction: {MARKS['reconstruction']}" in listed
    assert f"    reference: {MARKS['reference']}" in listed
    assert listed.count("    reference: ") == listed.count("    reconstruction: ") == 1  # none for TEEN
    assert {kind.mark for kind in REGISTRY.values()} <= {"", *MARKS}


def test_the_report_and_the_bench_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [result("prototypes", draw) for draw in range(2)]
    html = report_html([*others, *(result("cec", draw, title=TITLE) for draw in range(2))])
    assert TITLE in html
    assert "CEC<" not in html
    monkeypatch.setitem(METHODS, "cec", (TITLE, 2021, 60.0, 20.0, 0))
    bench = made_up(["prototypes", "yourself", "cec"])
    assert TITLE in bench_html(bench)
    assert any(row.cells[0].text == TITLE for row in scores_table(bench).rows)


def test_the_results_page_names_it_beside_the_printed_rows_too(tmp_path: Path) -> None:
    of = {"dataset": "cifar100", "title": TITLE, "recipe": "cifar100_cec"}
    for draw in range(2):
        path = tmp_path / f"{draw}.json"
        path.write_text(json.dumps(document("cec", draw, **of)), encoding="utf-8")
    text = results_page(collect(tmp_path), "../results")
    assert f"| **{TITLE}" in text
    ours = text.partition("### Our reimplementations beside the printed rows")[2]
    assert f"| {TITLE} " in ours


@pytest.mark.parametrize("name", RECONSTRUCTIONS)
def test_a_reconstruction_says_what_is_our_reading(name: str) -> None:
    assert REGISTRY[name].differences
    assert "econstruction" in (PAGES / f"{name}.md").read_text(encoding="utf-8")

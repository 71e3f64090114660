"""`fscil methods`: what is said of every method comes from the method, the recipes and the stored results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from report_documents import document
from typer.testing import CliRunner

from fscil.cli.main import app
from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.storage import write_json
from fscil.experiments import catalogue
from fscil.experiments.recipes import describe_methods, year_of
from fscil.methods import REGISTRY
from fscil.paper.printed import table

# Take a name out with its first stored row.
NOT_MEASURED: set[str] = set()


# Rows of the paper's tables that are no systems: ablations, its baseline, made-up corner cases.
NO_SYSTEMS = re.compile(r"yourself-.*|layer-.*|prototypes")
REFERENCES = {"joint", "finetune", "icarl", "ridge", "lda", "ranpac"}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for draw in range(2):
        write_json(
            tmp_path / "results" / f"y{draw}" / "result.json",
            document("yourself", draw, config={"train": {"epochs": 80}}),
        )
    return tmp_path / "results"


def test_every_method_is_described_in_full(results: Path) -> None:
    rows = {row["name"]: row for row in describe_methods(results)}
    assert set(rows) == set(REGISTRY)
    for name, row in rows.items():
        kind = REGISTRY[name]
        assert row["title"] == (f"{kind.title} ({kind.mark})" if kind.mark else kind.title)
        assert str(row["year"]) in row["paper"]
        assert row["summary"]
        assert not row["summary"].startswith(f"{REGISTRY[name].__name__}(")  # what dataclasses make up
        assert set(row["recipes"]) <= set(configs.recipes())


def test_all_systems_of_the_paper_and_the_references_are_listed() -> None:
    compared = {row.key for name in ("mini", "cub", "cifar-supplement") for row in table(name).rows}
    systems = {key for key in compared if not NO_SYSTEMS.fullmatch(key)}
    assert len(systems) == 20
    assert systems | REFERENCES <= set(REGISTRY)
    assert {name for name in REGISTRY if REGISTRY[name].mark == "reference"} == REFERENCES
    assert {name for name in REGISTRY if REGISTRY[name].mark == "reconstruction"} == {
        "topic", "idlvq", "metafscil", "fcil", "softnet",
    }  # fmt: skip
    for name in REGISTRY:
        page = Path(__file__).parents[2] / "docs" / "methods" / f"{name}.md"
        assert page.exists() or name in {"lazy", "prototypes"}, f"{name} has no page"


def test_measured_numbers_are_those_of_the_files(results: Path) -> None:
    rows = {row["name"]: row for row in describe_methods(results)}
    found = rows["yourself"]["verified"]
    expected = [document("yourself", draw)["metrics"]["gacc_grid"] for draw in range(2)]
    assert len(found) == 1
    assert (found[0]["dataset"], found[0]["recipe"], found[0]["draws"]) == ("glyphs", "glyphs", 2)
    assert found[0]["gacc_grid"]["mean"] == pytest.approx(sum(expected) / 2, abs=0.01)
    assert rows["prototypes"]["verified"] == []


def test_without_a_folder_the_numbers_are_those_that_come_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = Path(__file__).parents[2] / "results"
    assert describe_methods() == describe_methods(stored), "Run make docs."
    assert {row["name"] for row in describe_methods() if not row["verified"]} == NOT_MEASURED


def test_own_recipes_belong_to_one_method_only() -> None:
    rows = {row["name"]: row for row in describe_methods()}
    assert "cifar100_yourself" in rows["yourself"]["recipes"]
    assert "cifar100_yourself" not in rows["prototypes"]["recipes"]  # it runs there too, but as the baseline
    assert "glyphs" in rows["prototypes"]["recipes"]


def test_the_listing(results: Path) -> None:
    runner = CliRunner()
    text = runner.invoke(app, ["methods", "--results", str(results)]).stdout
    assert re.search(r"verified on glyphs \(glyphs, 2 draws\): gAcc, grid \d\d\.\d\d ± \d+\.\d\d, aAcc", text)
    assert "lazy: Lazy, Tang et al., ECCV 2024 (corner case)" in text
    assert "joint: Joint training (reference), upper bound" in text
    assert "keeps: all images of earlier sessions" in text
    assert "keeps: images of earlier sessions: 20 of each class" in text
    assert text.count("needs: pixels, and a network of its own that it goes on training") >= 3
    assert "differs: the paper's is a table of made-up accuracies" in text
    assert {row["name"] for row in json.loads(runner.invoke(app, ["methods", "--json"]).stdout)} == set(REGISTRY)


def test_the_listing_of_some_methods() -> None:
    listed = CliRunner().invoke(app, ["methods", "s3c", "alice", "--json"])
    assert {row["name"] for row in json.loads(listed.stdout)} == {"alice", "s3c"}
    with pytest.raises(InputError, match="There is no method 'alise'; did you mean 'alice'"):
        CliRunner().invoke(app, ["methods", "alise"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("paper", "year"), [("Yang et al., ICLR 2023", 2023), ("A, 2021; B, CVPR 2022 (code)", 2022), ("nobody", 0)]
)
def test_years(paper: str, year: int) -> None:
    assert year_of(paper) == year


def test_methods_are_asked_where_one_of_their_files_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads(catalogue.as_text())
    assert stored["methods"] == catalogue.asked()
    stored["methods"] = ["as stored"]
    path = tmp_path / "catalogue.json"
    monkeypatch.setattr(catalogue, "STORED", path)
    path.write_text(json.dumps(stored))
    assert catalogue.catalogue() == ["as stored"]
    stored["files"]["yourself.py"] = "another"
    path.write_text(json.dumps(stored))
    assert catalogue.catalogue() == catalogue.asked()

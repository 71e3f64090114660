"""`fscil paper`: what the commands print and write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from result_files import write_result
from typer.testing import CliRunner, Result

from fscil.cli.paper import app
from fscil.core.errors import InputError
from fscil.paper.printed import tables


def paper(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_audit_as_text_json_and_page(tmp_path: Path) -> None:
    assert "printed 52.76, recomputed 62.76" in paper("audit").output
    document = json.loads(paper("audit", "--json").stdout)
    assert document["counts"]["gacc"]["contradicts"] > 0
    page = tmp_path / "audit.md"
    assert paper("audit", "--out", page).output == f"Audit: {page}\n"
    assert page.read_text(encoding="utf-8").count("## ") > 8
    with pytest.raises(InputError, match=r"audit\.md already exists; add --force to overwrite it"):
        paper("audit", "--out", page)
    document = json.loads(paper("audit", "--json", "--out", page, "--force").stdout)
    assert document["schema"] == 1


def test_tables_are_listed_and_printed(tmp_path: Path) -> None:
    listing = paper("tables").output
    assert all(name in listing for name in tables())
    assert json.loads(paper("tables", "--format", "json").output).keys() == tables().keys()
    assert paper("tables", "cifar", "mini").output.count("| YourSelf") == 2
    assert paper("tables", "cifar", "--format", "latex").output.startswith(r"\begin{table}")
    paths = paper("tables", "--all", "--format", "csv", "--out", tmp_path).output.split()
    assert sorted(Path(path).stem for path in paths) == sorted(tables())
    with pytest.raises(InputError, match=r"already exists; add --force"):
        paper("tables", "cifar", "--format", "csv", "--out", tmp_path)
    paper("tables", "cifar", "--format", "csv", "--out", tmp_path, "--force")


def test_runs_in_tables_however_the_shell_passes_them(tmp_path: Path) -> None:
    paths = [write_result(tmp_path, f"run{seed}", shots_seed=seed) for seed in range(3)]
    alone = paper("tables", "cifar", "--with", tmp_path).output
    expanded = paper("tables", "cifar", "--with", *paths).output
    repeated = paper("tables", "cifar", "--with", paths[0], "--with", paths[1], paths[2]).output
    assert alone == expanded == repeated
    assert "YourSelf ‡" in alone


def test_figures_are_listed_and_written(tmp_path: Path) -> None:
    assert "comparison-cub" in paper("figures", "--list").output
    written = paper("figures", "layers", "--out", tmp_path).output.split()
    assert [Path(path).name for path in written] == ["layers.png", "layers.svg", "layers.pdf"]
    assert paper("figures", "layers", "--out", tmp_path / "b", "--format", "svg, png").output.count("layers") == 2
    with pytest.raises(InputError, match=r"layers\.png already exists; add --force to overwrite it"):
        paper("figures", "layers", "--out", tmp_path)
    paper("figures", "layers", "--out", tmp_path, "--force", "--format", "svg")


def test_figures_from_runs(tmp_path: Path) -> None:
    write_result(tmp_path / "runs", "a")
    written = paper("figures", "--with", tmp_path / "runs", "--out", tmp_path / "f", "--format", "png").output.split()
    assert [Path(path).stem for path in written] == ["comparison-cifar", "yours"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tables", "nimi"], "There is no table 'nimi'; did you mean 'mini'?"),
        (
            ["tables", "mini", "--format", "word"],
            "There is no format 'word'; choose one of markdown, latex, csv, json.",
        ),
        (["figures", "layers", "--format", "gif"], "There is no format 'gif'; choose from png, svg, pdf, or all."),
        (["figures", "--vary", "lr"], "--vary names a setting of your runs; give them with --with."),
        (["tables", "mini", "--with", "gone.json"], "gone.json does not exist; give a result.json or a folder"),
    ],
)
def test_bad_input_gets_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        paper(*arguments)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_refusal_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "mini.md").write_text("mine")
    with pytest.raises(InputError):
        paper("tables", "cifar", "mini", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mini.md"]

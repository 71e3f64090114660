"""The README says what is true: its example runs, its table is the measured one, its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import fscil

from fscil.pages.kit.prose import plus_minus
from fscil.pages.report.prose import comparison_text
from fscil.paper.printed import table
from fscil.results.result import find_results, load_results
from fscil.results.significance import spread

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_python_example_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    assert 20 < float(capsys.readouterr().out.split()[-1]) < 100


def test_the_table_is_the_measured_one() -> None:
    measured = comparison_text(
        load_results(find_results([ROOT / "results" / "glyphs" / name for name in ("prototypes", "yourself")]))
    )
    assert any(block.strip() == measured.strip() for block in blocks("")), f"README.md should print:\n{measured}"


def test_the_picture_and_every_linked_file_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_commands_of_the_table_exist() -> None:
    for command in re.findall(r"`fscil (\w+)", README):
        assert fscil(command, "--help").returncode == 0, command


def test_the_cifar100_rows_are_the_printed_and_the_measured_ones() -> None:
    printed = {row.key: row for name in ("cifar", "ablation-cifar") for row in table(name).rows}
    rows = {name: (printed[key].cells["aacc"].text, printed[key].cells["gacc"].text) for name, key in {
        "the paper's ViT baseline, as printed": "prototypes", "the paper's YourSelf, as printed": "yourself"}.items()
    }  # fmt: skip
    for name, folder in {
        "class means on our network trained as the authors train theirs": "paper_conv/prototypes",
        "**YourSelf as published, on that network**": "paper_conv/yourself",
        "class means on our network trained with z-scored logits": "yourself/prototypes",
        "YourSelf+ on it: ours (residual start, centred features, a whitened share)": "yourself/yourself",
        "**whitened layers on it: ours, nothing trained after the base session**": "yourself_mirrored/whitened",
    }.items():
        results = load_results(find_results([ROOT / "results" / "cifar100" / folder]))
        assert len(results) == 5
        cells = [spread([r.metrics[key] for r in results]) for key in ("aacc", "gacc_grid")]
        bold = "**" if name.startswith("**") else ""
        rows[name] = tuple(f"{bold}{plus_minus(cell, 1)}{bold}" for cell in cells)
    for name, (aacc, gacc) in rows.items():
        assert f"| {name} | {aacc} | {gacc} |" in README
    plain = load_results(find_results([ROOT / "results" / "cifar100" / "paper" / "yourself"]))
    aacc, gacc = (spread([r.metrics[key] for r in plain]).mean for key in ("aacc", "gacc_grid"))
    assert f"YourSelf as published reaches {aacc:.1f} and {gacc:.1f} here" in README

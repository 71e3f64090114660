"""`fscil ablate` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import fscil
from typer.testing import CliRunner

from fscil.cli.main import app
from fscil.core.errors import InputError

QUICK = ["--device", "cpu", "--seeds", "1", "--set", "train.epochs=2", "--set", "options.yourself.base_steps=2"]
QUICK += ["--set", "options.yourself.novel_steps=2"]


def ablate(*arguments: object) -> str:
    """In this process: torch takes longer to load than the ablation of digits."""
    done = CliRunner().invoke(app, ["ablate", "digits", *map(str, arguments), *QUICK], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ablate") / "digits"
    said = ablate("--out", out, "--only", "layers,ablation")
    assert "gAcc, grid" in said
    assert "ablation.html" in said
    return out


def test_it_trains_measures_and_writes(finished: Path) -> None:
    assert (finished / "base" / "backbone.safetensors").exists()
    for name in ("ablation.json", "ablation.md", "ablation.html"):
        assert (finished / name).stat().st_size > 0
    document = json.loads((finished / "ablation.json").read_text())
    assert (len(document["steps"]), len(document["curves"]), len(document["predictors"])) == (8, 0, 0)


def test_nothing_is_overwritten_unasked(finished: Path) -> None:
    with pytest.raises(InputError, match="add --resume to continue it"):
        ablate("--out", finished)


def test_another_part_joins_those_measured_before(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fscil.evaluation.cost._SECONDS", 0.01)
    cells = {path: path.stat().st_mtime_ns for path in (finished / "cells").rglob("*.json")}
    document = json.loads(ablate("--out", finished, "--resume", "--only", "calibration", "--json"))
    assert len(document["steps"]) == 8
    assert {each["key"] for each in document["predictors"]} >= {"prototypes", "ensemble"}
    assert {path: path.stat().st_mtime_ns for path in cells} == cells
    assert "Can its confidence be believed?" in (finished / "ablation.html").read_text(encoding="utf-8")


def test_a_network_from_elsewhere_gives_the_same_numbers(finished: Path, tmp_path: Path) -> None:
    path = finished / "base" / "backbone.safetensors"
    document = json.loads(ablate("--out", tmp_path / "x", "--checkpoint", path, "--only", "ablation", "--json"))
    assert document["steps"] == json.loads((finished / "ablation.json").read_text())["steps"]
    assert not (tmp_path / "x" / "base").exists()
    other = ["--out", tmp_path / "x", "--checkpoint", path, "--only", "ablation", "--set", "train.lr=0.5", "--json"]
    with pytest.raises(InputError, match=r"train\.lr=.*, and 0\.5 would change nothing"):
        ablate(*other, "--force")


def test_measured_again_when_forced(finished: Path) -> None:
    cells = {path: path.stat().st_mtime_ns for path in (finished / "cells").glob("yourself-*/*.json")}
    before = json.loads((finished / "ablation.json").read_text())["steps"]
    network = (finished / "base" / "backbone.safetensors").stat().st_mtime_ns
    ablate("--out", finished, "--force", "--only", "ablation")
    assert all(path.stat().st_mtime_ns > then for path, then in cells.items())
    assert json.loads((finished / "ablation.json").read_text())["steps"] == before
    assert (finished / "base" / "backbone.safetensors").stat().st_mtime_ns == network


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "layer"], "did you mean 'layers'"),
        (["--only", ","], "names no part"),
        (["--checkpoint", "nowhere.safetensors"], "does not exist"),
        (["--set", "options.yourself.weight=1"], "options.yourself.weight"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        ablate("--out", tmp_path / "x", *arguments)


def test_a_network_without_layers_is_refused_with_code_two(tmp_path: Path) -> None:
    done = fscil("ablate", "cifar100_resnet12", "--out", tmp_path / "x")
    assert done.returncode == 2
    assert "needs intermediate layers" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x").exists()

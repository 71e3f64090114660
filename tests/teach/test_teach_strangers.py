"""A project of a stranger, whose names are made to steer a terminal, a spreadsheet or a reader."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest
from teach_samples import NOVEL, characters, encoded

from fscil.cli import main as cli
from fscil.core.progress import Reporter
from fscil.pages.kit.table import TableCell, csv_text, table
from fscil.teach import Learner

STEERING = "\x1b]0;owned\x07\x1b[2J\u202egnp.tac\u202c"
FORMULA = '=HYPERLINK("http://evil.example","cat")'
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e]")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Made by a program that lets every name pass."""
    folder = tmp_path / "p"
    with pytest.MonkeyPatch.context() as lax, Learner.create(folder) as learner:
        lax.setattr("fscil.teach.learner.class_name", lambda name: name)
        for name, character in zip((STEERING, FORMULA), NOVEL, strict=False):
            learner.learn(name, characters(character, 4))
    (tmp_path / "=1+1.png").write_bytes(encoded(characters(NOVEL[0], 1)[0]))
    return folder


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fscil", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def test_names_steer_no_terminal(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "=1+1.png"
    for command, expected in (
        (["teach", "list", project], 0),
        (["teach", "list", project, STEERING], 0),
        (["teach", "list", project, "--json"], 0),
        (["teach", "history", project], 0),
        (["predict", project, image], 0),
        (["predict", project, image, "--csv"], 0),
        (["predict", project, image, "--json"], 0),
        (["doctor", project], 0),
        (["teach", "list", project, "\x1b[31mnobody"], 2),
        (["teach", "list", tmp_path / "\x1b[31mnowhere"], 2),
        (["eval", "\x1b[31mnothing"], 2),
        (["teach", "undo", project], 0),
    ):
        code, out, err = run(capsys, monkeypatch, *command)
        assert code == expected, (command, err)
        assert not CONTROL.search(out + err), command
        assert out + err
    code, out, _ = run(capsys, monkeypatch, "teach", "list", project)
    assert r"\x1b]0;owned\x07" in out


def test_json_is_still_the_data(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = run(capsys, monkeypatch, "teach", "list", project, "--json")
    assert [each["name"] for each in json.loads(out)] == [STEERING, FORMULA]


def test_formulas_are_text_in_spreadsheets(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, out, _ = run(capsys, monkeypatch, "predict", project, "=1+1.png", "--csv")
    [row] = csv.DictReader(io.StringIO(out))
    assert row["file"] == "'=1+1.png"
    labels = {value for key, value in row.items() if key.startswith("label")}
    assert "'" + FORMULA in labels
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())
    assert 0 <= float(row["confidence"]) <= 1


def test_tables_keep_their_numbers() -> None:
    made = table("t", ["=method", "change"], [["+cmd|' /C calc'!A0", TableCell("-1.50", "0.20")], ["plain", "–"]])
    rows = list(csv.reader(io.StringIO(csv_text(made))))
    assert rows == [
        ["'=method", "change", "change_sd"],
        ["'+cmd|' /C calc'!A0", "-1.50", "0.20"],
        ["plain", "–", ""],
    ]


def test_a_folder_whose_name_cannot_be_seen_is_named_and_nothing_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cat", "u\u200bnknown"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.png").write_bytes(encoded(characters(NOVEL[0], 1)[0]))
    Learner.create(tmp_path / "p").close()
    code, _, err = run(capsys, monkeypatch, "teach", "add", tmp_path / "p", "--from", tmp_path / "photos")
    assert code == 2
    assert r"'u\u200bnknown' holds U+200B ZERO WIDTH SPACE" in err
    with Learner.open(tmp_path / "p") as learner:
        assert learner.classes() == []


def test_progress_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    reporter.say(f"Run {STEERING}")
    with reporter.task(STEERING) as update:
        update(1, 1)
    assert not CONTROL.search(capsys.readouterr().err)

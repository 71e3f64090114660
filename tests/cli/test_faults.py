"""benchmarks/faults.py finds nothing wrong, and would find it: faults that are planted here are counted as wrong."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from commands import Process

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import faults  # noqa: E402
from fault_parts import files, kills, page  # noqa: E402
from fault_parts.tally import SURVIVED, WRONG, Tally  # noqa: E402

from fscil.core import storage  # noqa: E402
from fscil.teach import Learner  # noqa: E402
from fscil.training import checkpoint  # noqa: E402


def test_a_little_of_everything_and_nothing_wrong(tmp_path: Path) -> None:
    arguments = ["--quick", "--json", tmp_path / "counts.json", "--parts", "kills,damage"]
    done = Process(*arguments, log=tmp_path / "log", program=faults.main).wait()
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert done.returncode == counts["wrong"] == 0, done.stdout + done.stderr
    assert {line["part"] for line in counts["lines"]} == {"kills", "damaged files"}
    assert all(line["tried"] > 0 for line in counts["lines"])
    assert counts["tried"] == counts["survived"] + counts["refused"] + counts["other"] > 200


def damaged_lines(monkeypatch: pytest.MonkeyPatch, folder: Path, file: str) -> Tally:
    monkeypatch.setattr(files, "KINDS", [kind for kind in files.KINDS if kind.file == file and kind.exact])
    tally = Tally()
    files.damage(tally, folder, 60, seed=1, models=False)
    assert tally.lines[0].tried == 60
    return tally


@pytest.mark.parametrize("file", ["result.json", "backbone.safetensors"])
def test_a_reader_that_looks_at_no_checksum_is_wrong(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert damaged_lines(monkeypatch, tmp_path / "whole", file).wrong == 0
    monkeypatch.setattr(storage, "_content_sha256", lambda document: "")
    monkeypatch.setattr(checkpoint, "_checksum", lambda tensors, notes: "")
    assert damaged_lines(monkeypatch, tmp_path / "planted", file).wrong > 0


def test_a_reader_that_fails_without_a_sentence_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "InputError", ValueError)  # raised in place of a sentence
    assert damaged_lines(monkeypatch, tmp_path, "result.json").wrong > 0


def test_a_class_that_comes_in_two_halves_is_wrong_when_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn = Learner.learn

    def in_halves(self: Learner, name: str, images: Iterable[Any]) -> Any:
        given, began = list(images), time.monotonic()
        learn(self, name, given[: len(given) // 2])
        time.sleep(max(1.0, 8 * (time.monotonic() - began)))  # most of the time, also where that goes slowly
        return learn(self, name, given)

    kills.make_sources(tmp_path, model=False)
    monkeypatch.setattr(Learner, "learn", in_halves)
    tally = Tally()
    kills.kills(tally, tmp_path, {"teach add": 6}, seed=0)
    assert tally.wrong > 0
    assert "between: {'first': 6, 'second': 6, 'third': 3}" in " ".join(tally.lines[0].wrong)


def test_anything_wrong_ends_the_program_with_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for outcome, code in ((SURVIVED, 0), (WRONG, 1)):

        def tried(tally: Tally, *rest: object, outcome: str = outcome, **options: object) -> None:
            with tally.line("kills", "one") as line:
                line.count(outcome, "how", "why")

        monkeypatch.setattr(faults, "try_all", tried)
        monkeypatch.setattr(sys, "argv", ["faults.py", "--parts", "kills", "--json", str(tmp_path / "x.json")])
        assert faults.main() == code
        assert json.loads((tmp_path / "x.json").read_text())[outcome] == 1


def test_the_page_and_the_readme_say_what_was_counted() -> None:
    root = BENCHMARKS.parent
    found = json.loads((root / "results" / "reliability.json").read_text())
    assert (found["wrong"], found["quick"]) == (0, False)
    assert not [line["what"] for line in found["lines"] if line["skipped"]]
    assert len({line["part"] for line in found["lines"]}) == len(faults.PARTS)
    assert (root / "docs" / "reliability.md").read_text() == page.markdown(found)
    (said,) = re.findall(r"reliability\.md\) is what came of ([\d,]+) kills", (root / "README.md").read_text())
    assert said == f"{found['tried']:,}"

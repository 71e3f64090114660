"""Which interpreters benchmarks/suite.py runs the tests with, and what it stores of a run."""

from __future__ import annotations

import os
import platform
import stat
import sys
from pathlib import Path

import pytest

from benchmarks import suite


def test_an_interpreter_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(sys.executable).parent)
    python = suite.Python(f".{os.sep}{Path(sys.executable).name}")
    monkeypatch.chdir(tmp_path)
    assert Path(python.path).is_absolute()
    assert Path(python.path).exists()
    assert python.version == platform.python_version()


def test_what_is_no_interpreter_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no interpreter"):
        suite.Python(str(tmp_path / "python"))


@pytest.mark.skipif(os.name == "nt", reason="a script that stands for an interpreter")
def test_an_interpreter_with_a_package_of_its_own_is_refused(tmp_path: Path) -> None:
    stranger = tmp_path / "python"
    stranger.write_text(f"#!/bin/sh\nprintf '3.99.0\\n{tmp_path}/fscil/__init__.py\\n'\n")
    stranger.chmod(stranger.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(SystemExit, match="whatever PYTHONPATH says"):
        suite.Python(str(stranger))


def test_a_row_says_the_version_and_what_failed(tmp_path: Path) -> None:
    run = suite.Run.__new__(suite.Run)
    run.python, run.capability, run.log, run.started, run.ended = "3.13.0", "avx2", tmp_path / "log", 0.0, 90.0
    run.process = type("Ended", (), {"returncode": 1})()
    run.log.write_text("FAILED tests/test_one.py::test_a - no\n1 failed, 20 passed, 3 skipped in 90.00s\n")
    assert run.outcome() == {
        "python": "3.13.0", "capability": "avx2", "minutes": 1.5,
        "passed": 20, "skipped": 3, "failed": ["tests/test_one.py::test_a"],
    }  # fmt: skip

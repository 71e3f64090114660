"""What a program shows while it works: lines on stderr, for those who watch and for logs."""

from __future__ import annotations

import pytest

import fscil


def test_a_program_shows_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    update = fscil.progress("Base\x1b training")
    for done in range(1, 101):
        update(done, 100)
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split(" (")[0] for line in said.err.splitlines()] == [
        "Base\\x1b training: 1/100",
        "Base\\x1b training: 100/100",
    ]

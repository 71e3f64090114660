"""What strangers' text may do to a terminal, a spreadsheet or a reader: nothing."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fscil.core.text import hidden, spreadsheet_cell, visible

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@given(ANY_TEXT)
def test_what_is_made_visible_steers_no_terminal_and_changes_no_direction(text: str) -> None:
    made = visible(text, keep="\n")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]", made)
    assert not any(unicodedata.category(c) == "Cs" for c in made)
    made.encode()
    assert visible(made, keep="\n") == made


@pytest.mark.parametrize(
    "text", ["plain", "dåligt", "猫", "سلام", "नमस्ते", "👩🏽\u200d🔬 and ❤\ufe0f\u200d🔥", "- a = b"]
)
def test_ordinary_writing_is_left_alone(text: str) -> None:
    assert list(hidden(text)) == []
    assert visible(text) == text


def test_escapes_are_shown() -> None:
    assert visible("\x1b[31mred\x07\n\u202etxt") == r"\x1b[31mred\x07\n\u202etxt"


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+SUM(A1)",
        "-2+3",
        "@cmd",
        "\t=1",
        "\r=1",
        "\n=1",
        "=",
        "--1",
        "\uff1d1",
        "\uff0b1+1",
        "\uff0d2+3",
        "\uff20a",
    ],
)
def test_formulas_become_text(text: str) -> None:
    assert spreadsheet_cell(text) == "'" + text


@given(st.floats() | st.integers())
def test_numbers_stay_numbers(value: float) -> None:
    assert spreadsheet_cell(str(value)) == str(value)
    assert spreadsheet_cell(f"{value:+}") == f"{value:+}"


@pytest.mark.parametrize("text", ["", "-", "–", "cat", "a=b", "1 - 2"])
def test_other_cells_are_left_alone(text: str) -> None:
    assert spreadsheet_cell(text) == text

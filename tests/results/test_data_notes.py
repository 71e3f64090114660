"""What is said of the images, and that it comes back from its file as it was."""

from __future__ import annotations

import pytest

from fscil.core.errors import InputError
from fscil.results.data_notes import DataNotes, parse_data_notes


def test_nothing_is_said_where_there_is_nothing() -> None:
    assert DataNotes().sentences() == []


def test_each_kind_is_said_once_with_its_number() -> None:
    notes = DataNotes(tuple("abcdefg"), 1200, 1, "cat", ("cat", "dog"))
    left, both, two = notes.sentences()
    assert left.startswith("7 classes are in no session")
    assert "“e” and 2 more" in left
    assert both.startswith("1,200 test images are training images too")
    assert "“cat”" in both
    assert two.startswith("1 picture is in two classes, the first in “cat”, “dog”")
    assert parse_data_notes(notes.document()) == notes


@pytest.mark.parametrize("document", [{}, [], {"schema": 2}, {**DataNotes().document(), "in_two_classes": "many"}])
def test_another_file_is_refused(document: object) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        parse_data_notes(document)

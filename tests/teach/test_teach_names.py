from __future__ import annotations

import pytest

from fscil.core.errors import InputError
from fscil.teach.project.limits import class_name


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("cat", "cat"),
        ("  two words ", "two words"),
        ("e\u0301", "\u00e9"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),  # text like any other
        ("../../etc", "../../etc"),
        ("👩‍🚀", "👩‍🚀"),
        ("x" * 80, "x" * 80),
        ("unknown cat", "unknown cat"),
    ],
)
def test_names_as_they_are_stored(given: str, stored: str) -> None:
    assert class_name(given) == stored


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "needs a name"),
        (" \t ", "needs a name"),
        ("x" * 81, "81 characters"),
        ("a\nb", "cannot be shown"),
        ("a\x00b", "cannot be shown"),
        ("a\u202eb", "cannot be shown"),
        ("a\u2028b", "cannot be shown"),
        ("\ud800", "cannot be shown"),
        ("unknown", "another name"),
        ("Unknown ", "another name"),
        (3, "must be text"),
    ],
)
def test_names_that_are_refused(given: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        class_name(given)

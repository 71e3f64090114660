from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fscil.core.errors import InputError
from fscil.teach import Learner
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
        ("two \u00a0\u3000words", "two words"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # Persian: the joiner is part of the word
        ("क\u094d\u200dष", "क\u094d\u200dष"),  # Hindi, after a virama
        ("🏳\ufe0f\u200d🌈", "🏳\ufe0f\u200d🌈"),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
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
        ("a\nb", "cannot be seen"),
        ("a\x00b", "cannot be seen"),
        ("a\u202eb", "cannot be seen"),
        ("a\u2028b", "cannot be seen"),
        ("\ud800", "cannot be seen"),
        ("u\u200bnknown", r"'u\\u200bnknown' holds U\+200B ZERO WIDTH SPACE, which cannot be seen"),
        ("unknown\ufe0f", "cannot be seen"),
        ("c\u200dat", "cannot be seen"),
        ("c\u00adat", "cannot be seen"),
        ("\u2067cat\u2069", "cannot be seen"),
        ("\ufeffcat", "cannot be seen"),
        ("cat\u3164", "cannot be seen"),
        ("\x1b[2Jcat", "cannot be seen"),
        ("unknown", "another name"),
        ("ｕｎｋｎｏｗｎ", "another name"),
        ("Unknown ", "another name"),
        (3, "must be text"),
    ],
)
def test_names_that_are_refused(given: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        class_name(given)


def test_a_name_of_an_older_version_can_be_seen_and_changed(tmp_path: Path) -> None:
    old = "u\u200bnknown"
    with pytest.MonkeyPatch.context() as lax, Learner.create(tmp_path / "project") as learner:
        lax.setattr("fscil.teach.learner.class_name", lambda name: name)
        learner.learn(old, [np.full((40, 40, 3), level, np.uint8) for level in (10, 20)])
    with Learner.open(tmp_path / "project") as learner:
        assert len(learner.images(old)) == 2
        with pytest.raises(InputError, match="cannot be seen"):
            learner.images("u\u200b\u200bnknown")
        learner.rename(old, "cat")
        assert [each.name for each in learner.classes()] == ["cat"]

"""The one error a user is meant to read: bad input, said in a sentence that tells what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """Input the user can fix. The command line prints it as one line and exits with code 2."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint for a mistyped name: the closest valid one, then all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}Valid: {', '.join(names)}."

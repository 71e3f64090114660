"""The errors that a user is meant to read: bad input, in a sentence that says what to do; and work that failed."""

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """Input the user can fix. The command line prints it as one line and exits with code 2."""


class FaultError(Exception):
    """Work could not be done by a fault that a log tells in full: one line, and exit code 1."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint for a mistyped name: the closest valid one, then all of them."""
    names = sorted(valid)
    if not names:
        return "there is nothing to set here."
    return f"{did_you_mean(name, names)} Valid: {', '.join(names)}.".lstrip()


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else ""

"""Invitations: addresses, also drawn as QR codes, by which other machines of the network open the page.

An invitation is shown only to who knows the token already. It is not the token: it lets its guests in for some minutes,
and a photograph of the screen is worth nothing afterwards.
"""

import hmac
import io
import secrets
import time
from collections.abc import Callable

MINUTES = 10  # that an invitation holds
MOST = 16  # that hold at once; a new one ends the oldest


class Invitations:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: dict[str, float] = {}

    def make(self) -> str:
        self._drop_ended()
        while len(self._ends) >= MOST:
            del self._ends[next(iter(self._ends))]
        word = secrets.token_urlsafe(16)
        self._ends[word] = self._clock() + 60 * MINUTES
        return word

    def admits(self, given: str) -> bool:
        self._drop_ended()
        return any(hmac.compare_digest(given.encode(), word.encode()) for word in self._ends)

    def _drop_ended(self) -> None:
        now = self._clock()
        self._ends = {word: end for word, end in self._ends.items() if end > now}


def qr_code(text: str) -> list[str]:
    """The code with its quiet zone, a string of 0 and 1 for each row: drawn here, by nobody else."""
    import segno

    code = segno.make(text, error="m", micro=False)
    return ["".join("1" if dark else "0" for dark in row) for row in code.matrix_iter(border=4)]


def qr_for_terminal(text: str) -> str:
    import segno

    stream = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(out=stream, border=2, compact=True)
    return stream.getvalue()

"""What was tried and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# How a fault may end. `other` is for formats without a checksum: a file that was changed into another valid one.
SURVIVED, REFUSED, OTHER, WRONG, SKIPPED = "survived", "refused", "other", "wrong", "skipped"


@dataclass
class Line:
    """One line of the table."""

    part: str
    what: str
    criterion: str = ""  # what counts as survived
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # how to reproduce each
    sentences: Counter[str] = field(default_factory=Counter)
    skipped: str = ""  # why nothing was tried
    note: str = ""

    @property
    def tried(self) -> int:
        return sum(self.counts.values())

    def count(self, outcome: str, how: str = "", sentence: str = "") -> None:
        self.counts[outcome] += 1
        if outcome == WRONG:
            self.wrong.append(f"{how}: {sentence}"[:600])
        elif outcome == REFUSED and sentence:
            self.sentences[" ".join(sentence.split())[:200]] += 1

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "what": self.what,
            "criterion": self.criterion,
            "tried": self.tried,
            **{key: self.counts[key] for key in (SURVIVED, REFUSED, OTHER, WRONG)},
            "how_wrong": self.wrong,
            "skipped": self.skipped,
            "note": self.note,
        }


class Tally:
    def __init__(self, say: Callable[[str], None] = lambda text: None) -> None:
        self.lines: list[Line] = []
        self._say = say

    @contextmanager
    def line(self, part: str, what: str, criterion: str = "") -> Iterator[Line]:
        """One line of the table, said when it is done."""
        line = Line(part, what, criterion)
        self.lines.append(line)
        yield line
        shown = ", ".join(f"{key} {count}" for key, count in line.counts.items())
        self._say(f"{part}: {what}: {line.skipped or shown}")
        for text in line.wrong[:3]:
            self._say(f"  WRONG {text[:300]}")

    @property
    def wrong(self) -> int:
        return sum(line.counts[WRONG] for line in self.lines)


def one_sentence(text: str) -> bool:
    """Whether a refusal is what a person can read: one line, not a traceback."""
    return bool(text.strip()) and "Traceback" not in text and len(text) < 2000

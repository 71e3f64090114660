"""What a file says, before anything is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells are numbers, text, None or worse."""

    rows: Sequence[object]
    classes: object = None
    test_counts: object = None
    ours: bool = False  # certainly in percent: written by this program, or with percent signs
    notes: tuple[str, ...] = ()  # how the file was understood, where that was a decision

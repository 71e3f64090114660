"""What a file says before anything is checked: raw cells, the numbers in them, and their scale, percent or fractions.

The scale is settled by percent signs, else by the values themselves, and refused where neither decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fscil.core.errors import InputError

BLANKS = frozenset({"", "-", "--", "–", "—", "nan", "na", "n/a", "none", "null"})
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?\s*%?", re.IGNORECASE)
FAINT = 0.02  # below this, 2 % as a fraction and 0.02 % look alike, and both are next to nothing
FRACTIONS = "No value is above 1, so they were read as fractions of 1 and multiplied by 100."

Rows = Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class RawTable:
    """Cells may be anything a file can hold."""

    rows: Sequence[object]
    classes: object = None
    test_counts: object = None
    ours: bool = False  # certainly in percent: written by this program, or with percent signs
    notes: tuple[str, ...] = ()  # how the file was understood, where that was a decision


def is_blank(cell: str) -> bool:
    """Whether a cell stands for 'not learned yet', in any of the usual spellings."""
    return cell.strip().lower() in BLANKS


def is_numbering(cells: Sequence[str]) -> bool:
    """Whether the cells count up by one, from 0 or from 1."""
    return any(list(cells) == [str(start + i) for i in range(len(cells))] for start in (0, 1))


def number(cell: str) -> float | None:
    """The number in a cell, with a decimal point or comma and perhaps a percent sign; None if it is no number."""
    text = cell.strip()
    return float(text.rstrip("% \t").replace(",", ".")) if _NUMBER.fullmatch(text) else None


def percent_signs(rows: Sequence[Sequence[object]]) -> bool:
    """Whether all numbers carry a percent sign; some with and some without would be two scales in one table."""
    numbers = [cell.strip() for row in rows for cell in row if isinstance(cell, str) and number(cell) is not None]
    signed = sum(cell.endswith("%") for cell in numbers)
    if 0 < signed < len(numbers):
        example = next(cell for cell in numbers if not cell.endswith("%"))
        raise InputError(
            f"{signed} of {len(numbers)} values have a percent sign and '{example}' has none; write all one way."
        )
    return signed > 0


def to_percent(rows: Rows) -> tuple[list[list[float | None]], str]:
    """The rows in percent, and what was done about it, if anything."""
    values = [value for row in rows for value in row if value is not None]
    top = max(values, default=0.0)
    if not 0.0 < top <= 1.0:
        _refuse_two_scales(rows)
        return [list(row) for row in rows], ""
    if all(value in (0.0, 1.0) for value in values):
        raise InputError("Every value is 0 or 1, which may mean percent or fractions; add percent signs to settle it.")
    if top < FAINT:
        raise InputError(
            f"No value is above {top:g}, which may mean percent or fractions; add percent signs, or give percent."
        )
    return [[None if value is None else round(value * 100, 10) for value in row] for row in rows], FRACTIONS


def _refuse_two_scales(rows: Rows) -> None:
    """A row of fractions among rows of percent: two logs glued together, most likely."""
    for i, row in enumerate(rows):
        values = [value for value in row if value is not None]
        if values and 0.0 < max(values) < 1.0:
            raise InputError(
                f"Row {i + 1} has no value above 1 while others have, so fractions and percent may be mixed; give all "
                f"values in percent, with percent signs if row {i + 1} is right."
            )

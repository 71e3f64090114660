"""The accuracy matrix: the waist between what runs (left) and what measures (right).

`values[i, j]` is the accuracy, in percent, on the classes of session j after learning session i.
The matrix is lower triangular; the upper triangle (classes not yet learned) is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fscil.core.errors import InputError

MANY = 10**9  # classes or test images of one session: more is no count, and too long for arithmetic


@dataclass(frozen=True)
class AccuracyMatrix:
    """Per-session accuracies with the class and test-image counts they were measured on.

    A matrix with a hole, with a value where nothing was learned yet or outside 0 to 100 is refused.

    Examples:
        Row i is measured after session i; columns are the classes that each session brought.

        >>> matrix = AccuracyMatrix.from_lists([[80], [78, 40], [75, 35, 45]], classes=(20, 10, 10))
        >>> matrix.sessions
        3
        >>> matrix.to_lists()[-1]
        [75.0, 35.0, 45.0]
        >>> AccuracyMatrix.from_lists([[80], [78, 140]], classes=(20, 10))
        Traceback (most recent call last):
        ...
        fscil.core.errors.InputError: The matrix has 140 at row 2, column 2; accuracies must lie between 0 and 100...
    """

    values: np.ndarray  # (T, T) percent, NaN above the diagonal
    classes: tuple[int, ...]  # classes per session, base first
    test_counts: tuple[int, ...] = field(default=())  # test images per session; () when unknown

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "classes", tuple(int(c) for c in self.classes))
        object.__setattr__(self, "test_counts", tuple(int(c) for c in self.test_counts))
        if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
            raise InputError(
                f"An accuracy matrix must be square, one row and column per session; got shape {values.shape}."
            )
        sessions = len(values)
        if len(self.classes) != sessions:
            raise InputError(
                f"The matrix has {sessions} sessions but {len(self.classes)} class counts were given; "
                f"give one count per session, base first."
            )
        if min(self.classes) < 1 or max(self.classes) > MANY:
            raise InputError(f"Class counts must be positive and below {MANY:,}; got {str(list(self.classes))[:80]}.")
        if self.test_counts and len(self.test_counts) != sessions:
            raise InputError(f"The matrix has {sessions} sessions but {len(self.test_counts)} test counts were given.")
        if self.test_counts and not 0 <= min(self.test_counts) <= max(self.test_counts) <= MANY:
            raise InputError(f"Test counts must lie between 0 and {MANY:,}; got {str(list(self.test_counts))[:80]}.")
        for (i, j), value in np.ndenumerate(values):
            where, blank = f"row {i + 1}, column {j + 1}", np.isnan(value)
            if j > i and not blank:
                raise InputError(
                    f"The matrix has a value above the diagonal ({where}): session {j + 1} is not learned yet there; "
                    f"leave it blank."
                )
            if j <= i and blank:
                raise InputError(
                    f"The matrix has a hole at {where}; every cell on and below the diagonal must be filled."
                )
            if not blank and not 0.0 <= value <= 100.0:
                raise InputError(f"The matrix has {value:g} at {where}; accuracies must lie between 0 and 100 percent.")
        values.setflags(write=False)

    @property
    def sessions(self) -> int:
        """How many there are, the base session included."""
        return len(self.classes)

    def to_lists(self) -> list[list[float]]:
        """Ragged rows, as stored in result.json: row i holds sessions 0..i."""
        return [[float(v) for v in self.values[i, : i + 1]] for i in range(self.sessions)]

    @classmethod
    def from_lists(
        cls, rows: Sequence[Sequence[float | None]], classes: Sequence[int], test_counts: Sequence[int] = ()
    ) -> AccuracyMatrix:
        """From ragged or full rows; None and NaN mark blank cells."""
        sessions = len(rows)
        values = np.full((sessions, sessions), np.nan)
        for i, row in enumerate(rows):
            if len(row) > sessions:
                raise InputError(
                    f"Row {i + 1} has {len(row)} values, more than the {sessions} rows; a matrix is square."
                )
            for j, value in enumerate(row):
                values[i, j] = np.nan if value is None else float(value)
        return cls(values, tuple(classes), tuple(test_counts))

"""Accuracy matrices from files: a file becomes a table of raw cells, a table becomes a checked matrix.

A new format is one function from text to `Table`, entered in `FORMATS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

from fscil.errors import InputError
from fscil.matrix import AccuracyMatrix
from fscil.metrics.delimited import delimited_rows, is_blank, number


@dataclass(frozen=True)
class Table:
    """What a file says, before anything is checked: cells are numbers, text, None or worse."""

    rows: Sequence[object]
    classes: object = None
    test_counts: object = None
    ours: bool = False  # written by this program, hence certainly in percent


def read_matrix(path: str | Path, classes: Sequence[int] | None = None) -> AccuracyMatrix:
    """The accuracy matrix in a CSV or JSON file, in percent, one row per session.

    `classes` are the class counts per session, base first; they may be left out where the file has them.
    """
    path = Path(path)
    parse = FORMATS.get(path.suffix.lower())
    if parse is None:
        raise InputError(f"{path} is not in a known format; give one of {', '.join(sorted(FORMATS))}.")
    try:
        return table_to_matrix(parse(_text(path)), classes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def table_to_matrix(table: Table, classes: Sequence[int] | None = None) -> AccuracyMatrix:
    """Check the cells and counts of a table; class counts given by the caller must not contradict its own."""
    if not table.rows:
        raise InputError("There is no matrix in the file; give one row of accuracies per session.")
    rows = [_row(i, row) for i, row in enumerate(table.rows)]
    given = None if classes is None else _counts("class", classes)
    stored = None if table.classes is None else _counts("class", table.classes)
    if given is not None and stored is not None and given != stored:
        raise InputError(
            f"The file has class counts {stored} but {given} were given; leave out the ones that are wrong."
        )
    counts = given if given is not None else stored
    if counts is None:
        raise InputError("The class counts are not in the file; give one per session, base first, such as 60,5,5.")
    test_counts = [] if table.test_counts is None else _counts("test", table.test_counts)
    matrix = AccuracyMatrix.from_lists(rows, counts, test_counts)
    top = max(value for row in matrix.to_lists() for value in row)
    if 0.0 < top <= 1.0 and not table.ours:
        raise InputError(
            "No value in the matrix is above 1, so they look like fractions; multiply by 100 to get percent."
        )
    return matrix


def json_table(text: str) -> Table:
    """A list of rows, or an object with "matrix" and optionally "classes" and "test_counts", such as result.json."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"This is not valid JSON ({error}); give a list of rows or a result.json.") from None
    if isinstance(document, dict):
        if "matrix" not in document:
            raise InputError('There is no "matrix" in the file; give a list of rows or an object with "matrix".')
        rows = document["matrix"]
        table = Table(rows, document.get("classes"), document.get("test_counts"), ours=True)
    else:
        rows = document
        table = Table(rows)
    if not isinstance(rows, list):
        raise InputError(f"The matrix is {json.dumps(rows)[:40]}, not a list; give a list with one row per session.")
    return table


def csv_table(text: str) -> Table:
    """Delimited text, one line per session, with or without a header line and a column of labels."""
    return Table(delimited_rows(text))


FORMATS: dict[str, Callable[[str], Table]] = {
    ".csv": csv_table,
    ".tsv": csv_table,
    ".txt": csv_table,
    ".json": json_table,
}


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a byte-order mark first
    except FileNotFoundError:
        raise InputError("The file does not exist; check the path.") from None
    except OSError as error:
        raise InputError(f"The file cannot be read ({error.strerror}); check the path and its permissions.") from None
    except UnicodeDecodeError:
        raise InputError("The file is not UTF-8 text; save it as CSV (UTF-8) or JSON.") from None
    if not text.strip():
        raise InputError("The file is empty; give one row of accuracies per session.")
    return text


def _row(i: int, row: object) -> list[float | None]:
    if not isinstance(row, list):
        raise InputError(f"Row {i + 1} is {row!r}, not a list of accuracies; give one list per session.")
    return [_cell(i, j, cell) for j, cell in enumerate(row)]


def _cell(i: int, j: int, cell: object) -> float | None:
    if cell is None or (isinstance(cell, str) and is_blank(cell)):
        return None
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return math.inf if abs(cell) > 1e300 else float(cell)  # a JSON integer may be too long for a float
    value = number(cell) if isinstance(cell, str) else None
    if value is None:
        raise InputError(f"Row {i + 1}, column {j + 1} is {cell!r}, not a number; give an accuracy in percent.")
    return value


def _counts(kind: str, counts: object) -> list[int]:
    numbers = list(counts) if isinstance(counts, Sequence) and not isinstance(counts, str) else None
    if numbers is None or not all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) > 0 for n in numbers):
        raise InputError(f"The {kind} counts are {counts!r}; give one positive whole number per session, base first.")
    return [int(n) for n in numbers]

"""Accuracy matrices from files: a file becomes a table of raw cells, a table becomes a checked matrix.

A new format is one function from text (or bytes) to `RawTable`, entered in `FORMATS` (or `BINARY_FORMATS`).
"""

import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.matrix_files.arrays import npy_table, npz_table
from fscil.matrix_files.delimited import delimited_rows
from fscil.matrix_files.logs import log_table
from fscil.matrix_files.table import RawTable, is_blank, number, percent_signs, to_percent


class ReadingNote(UserWarning):
    """How a file was understood, where that was a decision: fractions, blanks, lines left out."""


def read_matrix(
    path: str | Path,
    classes: Sequence[int] | None = None,
    say: Callable[[str], None] | None = None,
    test_counts: Sequence[int] | None = None,
) -> AccuracyMatrix:
    """The accuracy matrix in a file, in percent, one row per session: CSV, TSV, JSON, NumPy, or text from a log.

    `classes` are the class counts per session, base first; they may be left out where the file has them. `test_counts`
    are test images per session, which only matter where classes have unequal numbers of them. `say` gets a sentence for
    every decision in understanding the file; by default it becomes a warning. The path "-" is stdin.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.csv")
        ...     _ = file.write_text("80;78,40;75,35,45".replace(";", "\\n"))
        ...     read_matrix(file, classes=[20, 10, 10]).to_lists()
        [[80.0], [78.0, 40.0], [75.0, 35.0, 45.0]]
    """
    path = Path(path)
    try:
        return table_to_matrix(_parse(path), classes, say or _warn, test_counts)
    except InputError as error:
        raise InputError(f"{'stdin' if str(path) == '-' else path}: {error}") from None


def parse_matrix(
    text: str, classes: Sequence[int] | None = None, say: Callable[[str], None] | None = None
) -> AccuracyMatrix:
    """The accuracy matrix in pasted text: JSON, a table with commas, tabs or spaces, or lines of a log.

    Examples:
        >>> parse_matrix("[[0.80], [0.78, 0.40]]", classes=[20, 10], say=print).to_lists()
        No value is above 1, so they were read as fractions of 1 and multiplied by 100.
        [[80.0], [78.0, 40.0]]
    """
    return table_to_matrix(text_table(text), classes, say or _warn)


def table_to_matrix(
    table: RawTable,
    classes: Sequence[int] | None = None,
    say: Callable[[str], None] | None = None,
    test_counts: Sequence[int] | None = None,
) -> AccuracyMatrix:
    """Check the cells and counts of a table; counts given by the caller must not contradict its own."""
    if not table.rows:
        raise InputError("There is no matrix in the file; give one row of accuracies per session.")
    rows = [_row(i, row) for i, row in enumerate(table.rows)]
    counts, tested = _agreed("class", table.classes, classes), _agreed("test", table.test_counts, test_counts)
    if counts is None:
        raise InputError("The class counts are not in the file; give one per session, base first, such as 60,5,5.")
    AccuracyMatrix.from_lists(rows, counts, tested or [])  # its shape first: a hole is worth more than its scale
    scaled, note = (rows, "") if table.ours else to_percent(rows)
    matrix = AccuracyMatrix.from_lists(scaled, counts, tested or [])
    for sentence in (*table.notes, note):
        if sentence and say is not None:
            say(sentence)
    return matrix


def _agreed(kind: str, in_file: Any, from_caller: Any) -> list[int] | None:
    """Counts of the file or of the caller, who must not say different things."""
    stored, given = (None if those is None else _counts(kind, those) for those in (in_file, from_caller))
    if given is not None and stored is not None and given != stored:
        raise InputError(
            f"The file has {kind} counts {stored} but {given} were given; leave out the ones that are wrong."
        )
    return stored if given is None else given


def json_table(text: str) -> RawTable:
    """A list of rows, or an object with "matrix" and optionally "classes" and "test_counts", such as result.json."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"This is not valid JSON ({error}); give a list of rows or a result.json.") from None
    if isinstance(document, dict):
        if "matrix" not in document:
            raise InputError('There is no "matrix" in the file; give a list of rows or an object with "matrix".')
        table = RawTable(document["matrix"], document.get("classes"), document.get("test_counts"), ours=True)
    else:
        table = RawTable(document)
    if not isinstance(table.rows, list):
        start = json.dumps(table.rows)[:40]
        raise InputError(f"The matrix is {start}, not a list; give a list with one row per session.")
    return table


def printed_array(text: str) -> RawTable:
    """What NumPy, PyTorch or Python prints for nested lists: [[85. nan] [80. 50.]]."""
    return RawTable([row.replace(",", " ").split() for row in re.findall(r"\[([^\[\]]*)\]", text)])


def csv_table(text: str) -> RawTable:
    """Delimited text, one line per session, with or without a header line and a column of labels."""
    rows = delimited_rows(text)
    return RawTable(rows, ours=percent_signs(rows))


def text_table(text: str) -> RawTable:
    """Text of any kind: JSON, a table, or a log that holds the rows somewhere."""
    if text.lstrip()[:1] in ("{", "[") and _is_json(text):
        return json_table(text)
    if _PRINTED.fullmatch(text):
        return printed_array(text)
    table = csv_table(text)
    # 'acc: 80.0, 50.0' would pass for a label and a value, as it has a comma.
    labelled = any(_LABELLED.search(line) for line in text.splitlines())
    if not labelled and all(_is_number(cell) for row in table.rows if isinstance(row, list) for cell in row):
        return table
    found = log_table(text)
    if found is None:
        return table  # its first odd cell will be named
    return replace(found, ours=percent_signs([row for row in found.rows if isinstance(row, list)]))


_PRINTED = re.compile(r"\s*\w*\(?\s*\[\s*(?:\[[^\[\]]*\]\s*,?\s*)+\]\s*\)?\s*")
_LABELLED = re.compile(r"[^\W\d]\w*\s*[:=]\s*[\d.]")

FORMATS: dict[str, Callable[[str], RawTable]] = {
    ".csv": csv_table,
    ".tsv": csv_table,
    ".txt": text_table,
    ".log": text_table,
    ".json": json_table,
}
BINARY_FORMATS: dict[str, Callable[[bytes], RawTable]] = {".npy": npy_table, ".npz": npz_table}


def _parse(path: Path) -> RawTable:
    if str(path) == "-":
        return text_table(_not_empty(sys.stdin.read()))
    suffix = path.suffix.lower()
    if suffix in BINARY_FORMATS:
        return BINARY_FORMATS[suffix](_bytes(path))
    if suffix in FORMATS:
        return FORMATS[suffix](_text(path))
    if suffix in (".xlsx", ".xls", ".ods"):
        raise InputError("The file is a spreadsheet; save it as CSV, or paste its cells into a .txt file.")
    known = ", ".join(sorted((*FORMATS, *BINARY_FORMATS)))
    raise InputError(f"The file is not in a known format; give one of {known}.")


def _warn(sentence: str) -> None:
    warnings.warn(sentence, ReadingNote, stacklevel=4)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_number(cell: object) -> bool:
    return isinstance(cell, str) and (is_blank(cell) or number(cell) is not None)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("The file does not exist; check the path.") from None
    except OSError as error:
        raise InputError(f"The file cannot be read ({error.strerror}); check the path and its permissions.") from None


def _text(path: Path) -> str:
    try:
        text = _bytes(path).decode("utf-8-sig")  # spreadsheets put a byte-order mark first
    except UnicodeDecodeError:
        raise InputError("The file is not UTF-8 text; save it as CSV (UTF-8) or JSON.") from None
    return _not_empty(text)


def _not_empty(text: str) -> str:
    if not text.strip():
        raise InputError("The file is empty; give one row of accuracies per session.")
    return text


def _row(i: int, row: object) -> list[float | None]:
    if not isinstance(row, list):
        raise InputError(f"Row {i + 1} is {row!r:.40}, not a list of accuracies; give one list per session.")
    return [_cell(i, j, cell) for j, cell in enumerate(row)]


def _cell(i: int, j: int, cell: object) -> float | None:
    if cell is None or (isinstance(cell, str) and is_blank(cell)):
        return None
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return math.inf if abs(cell) > 1e300 else float(cell)  # a JSON integer may be too long for a float
    value = number(cell) if isinstance(cell, str) else None
    if value is None:
        raise InputError(f"Row {i + 1}, column {j + 1} is {cell!r:.40}, not a number; give an accuracy in percent.")
    return value


def _counts(kind: str, counts: object) -> list[int]:
    numbers = list(counts) if isinstance(counts, Sequence) and not isinstance(counts, str) else None
    if numbers is None or not all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) > 0 for n in numbers):
        raise InputError(
            f"The {kind} counts are {counts!r:.80}; give one positive whole number per session, base first."
        )
    return [int(n) for n in numbers]

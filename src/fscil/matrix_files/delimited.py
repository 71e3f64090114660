"""Rows of cells from delimited text as people and spreadsheets write it, header and labels taken off.

The one difficulty is that headers and labels may be numbers too (pandas writes 0, 1, 2, ...). What settles it is the
shape: T rows of accuracies are T columns wide, and the first holds a single value.
"""

import csv

from fscil.core.errors import InputError
from fscil.matrix_files.table import is_blank, is_numbering, number


def delimited_rows(text: str) -> list[list[str]]:
    """The accuracies of every line as text, without header, labels, trailing blanks and comment lines (#)."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    # Semicolon and tab first: where they occur, a comma is a decimal comma or part of a label.
    delimiter = next((mark for mark in (";", "\t") if any(mark in line for line in lines)), ",")
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]
    except csv.Error as error:
        raise InputError(f"The text is not a table ({error}); give one line of accuracies per session.") from None
    for row in rows:
        while row and is_blank(row[-1]):
            row.pop()
    while rows and not rows[-1]:
        rows.pop()  # spreadsheets export empty lines below the table as rows of commas
    if _has_header(rows):
        rows = rows[1:]
    return [row[1:] for row in rows] if _has_labels(rows) else rows


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns; a row of accuracies with a typo in it must not pass for a header."""
    if len(rows) < 2 or not rows[0]:
        return False
    corner, others = rows[0][0], [cell for cell in rows[0][1:] if not is_blank(cell)]
    width = max(len(row) for row in rows[1:])
    if number(corner) is not None:
        return len(others) > 0 and is_numbering(rows[0]) and len(rows) - 1 == width
    if is_blank(corner):
        return True
    if others and all(_is_text(cell) for cell in others):
        return len(rows[0]) >= width - 1  # one name per column, the column of labels perhaps without
    if any(_is_text(cell) for cell in others):
        return False
    if rows[1] and _is_text(rows[1][0]):
        return len(others) > 1  # labels below: a labelled first row would have a single accuracy
    return len(others) > 0 or len(rows) != width


def _has_labels(rows: list[list[str]]) -> bool:
    if not all(rows):
        return False
    firsts = [row[0] for row in rows]
    if all(_is_text(cell) for cell in firsts):
        return max((len(row) for row in rows), default=0) > 1
    # Session numbers: one column too many and counting up, so that accuracies are never taken for labels.
    return is_numbering(firsts) and max(len(row) for row in rows) == len(rows) + 1


def _is_text(cell: str) -> bool:
    return not is_blank(cell) and number(cell) is None

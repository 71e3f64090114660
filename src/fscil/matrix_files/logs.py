"""Rows of numbers in a text pasted from a log: lines that are alike but for their numbers, growing by one each session.

Three ways of writing a row are understood:

    after session 2: 78.3 45.0 40.2            numbers at the end of the line
    acc per task [78.3, 45.0, 40.2]            a list in brackets
    {'total': 71.0, '00-59': 78.3, '60-64': ...}   accuracy by class range, which also gives the class counts

A log with two such triangles, or one that can be read in two ways, is refused.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

from fscil.core.errors import InputError
from fscil.matrix_files.table import RawTable, is_blank, is_numbering

LONGEST = 4000  # characters: a longer line is a dump of something else, and slow to search
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\s?%?"
_CELL = rf"(?:{_NUMBER}|nan|none|null|-+)"
_LIST = re.compile(rf"[\[(]\s*({_CELL}(?:[\s,;]+{_CELL})*)\s*,?\s*[\])]", re.IGNORECASE)
_TAIL = re.compile(rf"(?:^|(?<=[\s:=|,]))({_CELL}(?:[\s,;|/]+{_CELL})*)\s*$", re.IGNORECASE)
_RANGE = re.compile(rf"""['"]?(\d+)\s*-\s*(\d+)['"]?\s*[:=]\s*({_NUMBER})""")


@dataclass(frozen=True)
class LogRow:
    """A line read one way: what stands around its numbers, the numbers, and the classes they are for."""

    template: str
    cells: tuple[str, ...]
    classes: tuple[int, ...] = ()


def log_table(text: str) -> RawTable | None:
    """The one triangle of accuracies in a text; None if there is none."""
    lines = [line for line in text.splitlines() if line.strip() and len(line) <= LONGEST]
    found: dict[tuple[tuple[str, ...], ...], RawTable] = {}
    for reading in (_by_range, _by_list, _by_tail):
        alike = defaultdict(list)  # by what stands around the numbers
        for row in filter(None, map(reading, lines)):
            alike[row.template].append(row)
        for rows in alike.values():
            for triangle in _triangles(rows):
                cells = tuple(row.cells for row in triangle)
                found.setdefault(cells, _table(triangle, len(lines)))
        if found:
            break  # a list in brackets is a row; its tail is a piece of that row
    if len(found) > 1:
        raise InputError(f"The text holds {len(found)} triangles of accuracies; give one run at a time.")
    return next(iter(found.values()), None)


def _table(rows: list[LogRow], lines: int) -> RawTable:
    ignored = lines - len(rows)
    note = f"Read {len(rows)} rows of accuracies from text"
    note += f"; {ignored} other line{'s were' if ignored != 1 else ' was'} ignored." if ignored else "."
    return RawTable([list(row.cells) for row in rows], list(rows[-1].classes) or None, notes=(note,))


def _triangles(rows: list[LogRow]) -> list[list[LogRow]]:
    """Runs of rows with 1, 2, ..., T cells, T > 1; a column of session numbers is taken off first."""
    if is_numbering([row.cells[0] for row in rows]) and [len(row.cells) for row in rows] == [*range(2, len(rows) + 2)]:
        rows = [LogRow(row.template, row.cells[1:], row.classes) for row in rows]
    runs: list[list[LogRow]] = []
    for row in rows:
        if len(row.cells) == 1:
            runs.append([row])
        elif runs and len(row.cells) == len(runs[-1][-1].cells) + 1:
            runs[-1].append(row)
    return [run for run in runs if len(run) > 1]


def _by_range(line: str) -> LogRow | None:
    ranges = _RANGE.findall(line)
    if not ranges or any(int(ranges[i][0]) != int(ranges[i - 1][1]) + 1 for i in range(1, len(ranges))):
        return None
    classes = tuple(int(last) - int(first) + 1 for first, last, _ in ranges)
    start = line.index(ranges[0][2])
    return LogRow(_template(line[:start].split("{")[0]), tuple(cell.strip() for _, _, cell in ranges), classes)


def _by_list(line: str) -> LogRow | None:
    lists = _LIST.findall(line)
    if not lists:
        return None
    place = line.rindex(lists[-1])
    return LogRow(_template(line[:place]), _cells(lists[-1]))


def _by_tail(line: str) -> LogRow | None:
    match = _TAIL.search(line)
    return LogRow(_template(line[: match.start(1)]), _cells(match[1])) if match else None


def _cells(text: str) -> tuple[str, ...]:
    cells = [cell for cell in re.split(r"[\s,;|/]+", re.sub(r"\s+%", "%", text).strip()) if cell]
    while len(cells) > 1 and is_blank(cells[-1]):
        cells.pop()  # the blank upper triangle
    return tuple(cells)


def _template(prefix: str) -> str:
    """What stays the same from session to session."""
    return " ".join(re.sub(r"\d+", "#", prefix).split())

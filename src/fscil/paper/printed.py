"""The printed tables, read from the data files beside this module: one CSV per table, cells kept as printed text.

Text, because the number of printed digits says how far a value may be off. A number that the paper prints in two tables
is stored twice on purpose: those are two prints, and the audit compares them.
"""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from fscil.core.errors import InputError, nearest
from fscil.core.matrix import AccuracyMatrix
from fscil.paper.interval import Interval

_NUMBER = re.compile(r"\d+(\.\d+)?")
_TEXT_COLUMNS = frozenset({"key", "name", "quoted", "marks", "source"})


@dataclass(frozen=True)
class PrintedCell:
    """One printed cell."""

    text: str

    @property
    def known(self) -> bool:
        return _NUMBER.fullmatch(self.text) is not None

    @property
    def value(self) -> float:
        return float(self.text)

    @property
    def digits(self) -> int:
        """Decimals printed."""
        return len(self.text.partition(".")[2])

    @property
    def interval(self) -> Interval:
        """Every value that prints like this, with ties rounded either way."""
        half = 0.5 * 10.0**-self.digits
        return Interval(self.value - half, self.value + half)


@dataclass(frozen=True)
class PrintedRow:
    """One printed row: a method (or a model, for the corner cases) and its cells by column."""

    key: str
    name: str  # as printed there
    cells: Mapping[str, PrintedCell]
    quoted: bool = False  # dagger: copied from the method's own paper, not measured by the authors
    marks: Mapping[str, str] = field(default_factory=dict)  # column -> best (bold) or second (underlined)

    @property
    def sessions(self) -> list[PrintedCell]:
        """The cells of the per-session columns."""
        return [cell for column, cell in self.cells.items() if column.isdigit()]


@dataclass(frozen=True)
class BenchmarkPlan:
    """The class plan of a benchmark, and its test images per session as in the public session lists.

    CUB-200's counts were inferred from the sizes of those lists and their known sum: one may be off by an image or two,
    which moves a bound by less than 0.02 and changes no verdict of the audit (tested).
    """

    key: str
    title: str
    base: int
    way: int
    novel_sessions: int
    base_images: int
    session_images: tuple[int, ...]  # of each novel session

    @property
    def classes(self) -> tuple[int, ...]:
        return (self.base, *[self.way] * self.novel_sessions)

    @property
    def ratio(self) -> int:
        """r = |Y_1| / |Y_novel|, whole on all three benchmarks."""
        return self.base // self.way

    @property
    def sessions(self) -> int:
        return self.novel_sessions + 1

    @property
    def balanced(self) -> bool:
        """Whether all classes have equally many test images, so that pooled and class-weighted accuracy coincide."""
        per_class = self.base_images * self.way
        return all(images * self.base == per_class for images in self.session_images)


@dataclass(frozen=True)
class PrintedTable:
    """A table of the paper."""

    name: str
    number: str  # as printed, "A6"; empty for numbers stated in the text
    label: str  # in the LaTeX source
    kind: str  # comparison, novel, ablation, layers, corner, backbones or tradeoffs
    dataset: str  # key, empty where it has none
    title: str
    columns: tuple[str, ...]  # of the cells, in print order
    rows: tuple[PrintedRow, ...]

    def row(self, key: str) -> PrintedRow | None:
        return next((row for row in self.rows if row.key == key), None)

    @property
    def source(self) -> str:
        return f"Table {self.number}" if self.number else "text"


@cache
def tables() -> dict[str, PrintedTable]:
    """Every table by name, in the order of the paper."""
    return {entry["name"]: _read_table(entry) for entry in read_data("tables.json")["tables"]}


def table(name: str) -> PrintedTable:
    if name not in tables():
        raise InputError(f"There is no table '{name}'; {nearest(name, tables())}")
    return tables()[name]


@cache
def datasets() -> dict[str, BenchmarkPlan]:
    entries = read_data("datasets.json")
    return {
        key: BenchmarkPlan(key=key, **{**entry, "session_images": tuple(entry["session_images"])})
        for key, entry in entries.items()
    }


@cache
def claims() -> list[dict[str, Any]]:
    """Differences that the text states, with the two cells they come from."""
    return list(read_data("claims.json"))


@cache
def paper() -> dict[str, str]:
    return dict(read_data("tables.json")["paper"])


def method_title(key: str) -> str:
    """The one name we use for a method, whichever way a table spells it."""
    entry = _methods().get(key)
    return entry["title"] if entry else key


def corner_matrix(corner: PrintedTable) -> AccuracyMatrix:
    """The accuracy matrix that a corner-case table prints in full."""
    rows = [[float(c.text) for name, c in row.cells.items() if name[0] == "A" and c.known] for row in corner.rows[:-1]]
    return AccuracyMatrix.from_lists(rows, datasets()[corner.dataset].classes)


@cache
def _methods() -> dict[str, dict[str, str]]:
    return dict(read_data("methods.json"))


def _read_table(entry: Mapping[str, str]) -> PrintedTable:
    lines = csv.DictReader(_read_text(f"{entry['name']}.csv").splitlines())
    columns = tuple(name for name in lines.fieldnames or () if name not in _TEXT_COLUMNS)
    return PrintedTable(**entry, columns=columns, rows=tuple(_row(line, columns) for line in lines))


def _row(line: Mapping[str, str], columns: tuple[str, ...]) -> PrintedRow:
    marks = dict(mark.split(":") for mark in line.get("marks", "").split())
    name = line.get("name") or method_title(line["key"])
    if line.get("source"):
        name = f"{name} ({line['source']})"
    cells = {column: PrintedCell(line[column]) for column in columns}
    return PrintedRow(line["key"], name, cells, quoted=line.get("quoted") == "yes", marks=marks)


def read_data(name: str) -> Any:
    return json.loads(_read_text(name))


def _read_text(name: str) -> str:
    return (files("fscil.paper") / "data" / name).read_text(encoding="utf-8")

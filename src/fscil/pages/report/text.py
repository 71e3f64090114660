"""The comparison for a terminal: the headline and the main numbers in plain text."""

from __future__ import annotations

from collections.abc import Sequence

from fscil.pages.kit.markup import number, signed
from fscil.pages.report.headline import headline, spread_note
from fscil.results.comparison import HEADLINE, Column, ComparisonTable, Row, comparison_table
from fscil.results.result import Result

_LONG = ("base_first", "base_last", "novel_last", "lacc", "aacc", HEADLINE, "gacc_exact", "hacc", "pd", "kr")
_SHORT = ("base_last", "novel_last", "aacc", HEADLINE)  # with many methods, one line each
_FEW = 3
_NAMES = {
    "base_first": "Base classes, first",
    "base_last": "Base classes, last",
    "novel_last": "New classes, last",
    HEADLINE: "gAcc, grid (headline)",
}


def comparison_text(results: Sequence[Result], baseline: str | None = None) -> str:
    """Mean ± standard deviation per method, and for two methods their paired difference ± its standard error."""
    table = comparison_table(results, baseline)
    few = len(table.rows) <= _FEW
    columns = [column for column in table.columns if column.key in (_LONG if few else _SHORT)]
    columns = [column for column in columns if any(row.cells[column.key] for row in table.rows)]
    lines = [["in percent", *(_name(column) for column in columns)]]
    lines += [[row.title, *(_value(row, column) for column in columns)] for row in table.rows]
    if len(table.rows) == 2 and table.rows[1].differences:
        lines.append(["Difference", *(_difference(table, column) for column in columns)])
    grid = [list(line) for line in zip(*lines, strict=True)] if few else lines
    widths = [max(len(line[place]) for line in grid) for place in range(len(grid[0]))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in grid]
    rows.insert(1, "-" * max(len(row) for row in rows))
    return "\n".join([headline(table, results).replace("\u00a0", " "), "", *rows, "", spread_note(results)])


def _name(column: Column) -> str:
    return _NAMES.get(column.key, column.label)


def _value(row: Row, column: Column) -> str:
    cell = row.cells[column.key]
    if cell is None:
        return "–"
    return number(cell.mean) + ("" if cell.std is None else f" ± {number(cell.std)}")


def _difference(table: ComparisonTable, column: Column) -> str:
    gap = table.rows[1].differences.get(column.key)
    if gap is None:
        return "–"
    if not gap.judged:
        return signed(gap.mean)
    verdict = ""
    if gap.clear:
        verdict = " better" if (gap.mean > 0) == column.higher_is_better else " worse"
    return f"{signed(gap.mean)} ± {number(gap.error)}{verdict}"

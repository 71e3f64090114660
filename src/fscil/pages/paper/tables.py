"""Printed tables, with a user's rows if wanted, as Markdown, LaTeX, CSV and JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fscil.core.errors import InputError
from fscil.metrics.names import label
from fscil.pages.kit.table import Column, Table, TableCell, TableRow, csv_text, latex, markdown, spread_cell
from fscil.paper.audit import doubtful_values
from fscil.paper.finding import COLUMNS
from fscil.paper.printed import PrintedRow, PrintedTable, datasets, method_title
from fscil.paper.series import Series, comparable
from fscil.results.grouping import dataset_key

Format = Literal["markdown", "latex", "csv", "json"]
FORMATS: tuple[Format, ...] = ("markdown", "latex", "csv", "json")
SUFFIXES: dict[Format, str] = {"markdown": ".md", "latex": ".tex", "csv": ".csv", "json": ".json"}
_HEADERS = {
    **COLUMNS, "avg": "Avg", "params": "Params (M)", "fr": "FR", "cos_novce": "L_cos + L_NovCE", "cr": "L_CR",
    "ir": "L_IR", "embed_dim": "Embed dim", "heads": "Heads", "layers": "Layers", "beta_cos": "β_cos",
    "beta_novce": "β_NovCE", "beta_cr": "β_CR", "beta_ir": "β_IR",
}  # fmt: skip
_RANKED = ("comparison", "novel", "ablation", "layers")
_FIRST = {
    "corner": "Model", "backbones": "Backbone", "tradeoffs": "Data set (source)", "layers": "Features",
    "ablation": "Variant",
}  # fmt: skip


@dataclass(frozen=True)
class TableLine:
    """One row: a printed one, or yours."""

    key: str
    name: str
    cells: tuple[TableCell, ...]
    quoted: bool = False
    yours: bool = False


@dataclass(frozen=True)
class FilledTable:
    """A printed table with a user's rows below its own."""

    printed: PrintedTable
    lines: tuple[TableLine, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.printed.title} ({self.printed.source})"

    def for_readers(self) -> Table:
        """With † and ‡ behind names, and a common title above the sessions."""
        columns = (Column(_FIRST.get(self.printed.kind, "Method")), *map(self._column, self.printed.columns))
        rows = (
            TableRow(
                (TableCell(f"{line.name}{'†' * line.quoted}{' ‡' * line.yours}"), *line.cells),
                group="yours" * line.yours,
            )
            for line in self.lines
        )
        return Table(self.title, columns, tuple(rows), self.notes, self.printed.label)

    def for_programs(self) -> Table:
        """With what the marks say in columns of its own."""
        columns = ("key", "name", "quoted", "yours", *self.printed.columns)
        rows = []
        for line in self.lines:
            flags = ("yes" if flag else "no" for flag in (line.quoted, line.yours))
            numbers = (replace(cell, text=cell.text.replace("✓", "x")) for cell in line.cells)
            rows.append(TableRow((*map(TableCell, (line.key, line.name, *flags)), *numbers)))
        return Table(self.title, tuple(map(Column, columns)), tuple(rows))

    def document(self) -> dict[str, object]:
        rows = []
        for line in self.lines:
            cells = {column: cell.plain for column, cell in zip(self.printed.columns, line.cells, strict=True)}
            flags = {"quoted": line.quoted, "yours": line.yours}
            rows.append({"key": line.key, "name": line.name, **flags, "cells": cells})
        return {"title": self.title, "source": self.printed.source, "rows": rows, "notes": list(self.notes)}

    def _column(self, key: str) -> Column:
        what = "Accuracy on novel classes" if self.printed.kind == "novel" else label("aacc")
        header = _HEADERS.get(key, key)
        if self.printed.kind == "backbones":
            header = header.removesuffix(" (M)")  # its cells say the unit
        return Column(header, key=key, group=f"{what} after each task (%)" if key.isdigit() else "")


def lay_out(printed: PrintedTable, yours: Sequence[Series] = (), *, any_dataset: bool = False) -> FilledTable:
    """The table's rows as printed, then the user's, with best and second best found anew among all of them."""
    lines = [_printed_line(printed, row) for row in printed.rows]
    if yours:
        if printed.kind not in _RANKED:
            raise InputError(
                f"Table '{printed.name}' has no rows for methods, so no run fits into it; leave out --with."
            )
        plan = datasets()[printed.dataset]
        lines += [_your_line(entry, printed) for entry in comparable(yours, plan, any_dataset=any_dataset)]
    if printed.kind in _RANKED:
        lines = _ranked(lines, printed.columns)
    return FilledTable(printed, tuple(lines), tuple(_notes(printed, lines, yours)))


def render(filled: FilledTable, form: Format) -> str:
    if form == "markdown":
        parts = [f"**{filled.title}**", markdown(filled.for_readers()), " ".join(filled.notes)]
        return "\n\n".join(filter(None, parts)) + "\n"
    if form == "latex":
        return latex(filled.for_readers())
    if form == "csv":
        return csv_text(filled.for_programs())
    return json.dumps(filled.document(), indent=2, ensure_ascii=False) + "\n"


def _printed_line(printed: PrintedTable, row: PrintedRow) -> TableLine:
    name = method_title(row.key) if printed.kind in _RANKED else row.name
    if printed.kind == "corner":
        name = row.key.replace("f", "f_")
    cells = tuple(TableCell("✓" if cell.text == "x" else cell.text) for cell in row.cells.values())
    return TableLine(row.key, name, cells, quoted=row.quoted)


def _your_line(entry: Series, printed: PrintedTable) -> TableLine:
    draws = entry.novel_per_session() if printed.kind == "novel" else entry.aacc_per_session()
    sessions = iter(draws.mean(axis=0))
    cells = []
    for column in printed.columns:
        if column.isdigit():
            cells.append(TableCell(f"{next(sessions):.1f}"))
        elif column == "avg":
            cells.append(TableCell(f"{draws.mean():.2f}"))
        elif column in ("aacc", "gacc"):
            cells.append(spread_cell(entry.aacc if column == "aacc" else entry.gacc))
        else:
            cells.append(TableCell("-" if column == "params" else ""))
    elsewhere = "" if dataset_key(entry.dataset) == printed.dataset else f" on {entry.dataset}"
    return TableLine(entry.key, f"{entry.title}{elsewhere}", tuple(cells), yours=True)


def _ranked(lines: list[TableLine], columns: Sequence[str]) -> list[TableLine]:
    """Best and second best in the columns that the paper marks: the last session and the summaries."""
    last = max((column for column in columns if column.isdigit()), key=int)
    order = {
        j: sorted({float(line.cells[j].text) for line in lines if _is_number(line.cells[j])}, reverse=True)[:2]
        for j, column in enumerate(columns)
        if column in (last, *COLUMNS)
    }

    def ranked(j: int, cell: TableCell) -> TableCell:
        if not _is_number(cell) or float(cell.text) not in order.get(j, ()):
            return cell
        return replace(cell, rank="best" if float(cell.text) == order[j][0] else "second")

    return [replace(line, cells=tuple(ranked(j, cell) for j, cell in enumerate(line.cells))) for line in lines]


def _is_number(cell: TableCell) -> bool:
    return cell.text.replace(".", "", 1).isdigit()


def _notes(printed: PrintedTable, lines: Sequence[TableLine], yours: Sequence[Series]) -> list[str]:
    notes = []
    if any(cell.rank for line in lines for cell in line.cells):
        notes.append("Bold: best. Underlined: second best. gAcc is the grid variant.")
    if any(line.quoted for line in lines):
        notes.append("†: quoted from the method's own paper.")
    if yours:
        several = any(len(entry.matrices) > 1 for entry in yours)
        draws = "mean ± standard deviation over draws of the shots" if several else "one draw of the shots"
        notes.append(f"‡: your runs, not in the paper; {draws}.")
    doubtful = doubtful_values(printed) if printed.kind in _RANKED else set()
    if doubtful:
        values = ", ".join(f"{method_title(key)}'s {COLUMNS[column]}" for key, column in sorted(doubtful))
        notes.append(f"As printed; contradicts its own row: {values} (see `fscil paper audit`).")
    return notes

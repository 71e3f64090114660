"""Printed tables, with a user's rows if wanted, as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fscil.core.errors import InputError
from fscil.pages.kit.markdown import markdown_table
from fscil.pages.paper.latex import latex_table
from fscil.paper.audit import doubtful_values
from fscil.paper.finding import COLUMNS
from fscil.paper.printed import PrintedTable, Row, datasets, method_title
from fscil.paper.runs import comparable
from fscil.paper.series import Series

Format = Literal["markdown", "latex", "csv", "json"]
FORMATS: tuple[Format, ...] = ("markdown", "latex", "csv", "json")
SUFFIXES: dict[Format, str] = {"markdown": ".md", "latex": ".tex", "csv": ".csv", "json": ".json"}
_HEADERS = {
    "params": "Params (M)", "aacc": "aAcc", "gacc": "gAcc", "avg": "Avg", "fr": "FR", "cos_novce": "L_cos + L_NovCE",
    "cr": "L_CR", "ir": "L_IR", "embed_dim": "Embed dim", "heads": "Heads", "layers": "Layers", "beta_cos": "β_cos",
    "beta_novce": "β_NovCE", "beta_cr": "β_CR", "beta_ir": "β_IR",
}  # fmt: skip
_RANKED = ("comparison", "novel", "ablation", "layers")
_FIRST = {
    "corner": "Model",
    "backbones": "Backbone",
    "tradeoffs": "Data set (source)",
    "layers": "Features",
    "ablation": "Variant",
}


@dataclass(frozen=True)
class Line:
    """One row to be rendered."""

    key: str
    name: str
    cells: list[str]
    quoted: bool = False
    yours: bool = False
    ranks: list[str] = field(default_factory=list)  # per cell: best, second or nothing


@dataclass(frozen=True)
class Rendering:
    """A table ready for any format."""

    title: str
    source: str
    label: str
    first: str  # header of the name column
    columns: list[str]  # keys
    lines: list[Line]
    notes: list[str]

    @property
    def headers(self) -> list[str]:
        names = [_HEADERS.get(column, column) for column in self.columns]
        return [name.removesuffix(" (M)") for name in names] if self.first == "Backbone" else names


def lay_out(printed: PrintedTable, yours: Sequence[Series] = (), *, any_dataset: bool = False) -> Rendering:
    """The table's rows as printed, then the user's, with best and second best found anew among all of them."""
    columns = list(printed.columns)
    lines = [_printed_line(printed, row) for row in printed.rows]
    if yours:
        if printed.kind not in _RANKED:
            raise InputError(
                f"Table '{printed.name}' has no rows for methods, so no run fits into it; leave out --with."
            )
        plan = datasets()[printed.dataset]
        lines += [_your_line(entry, columns, printed) for entry in comparable(yours, plan, any_dataset=any_dataset)]
    if printed.kind in _RANKED:
        lines = _rank(lines, columns)
    return Rendering(
        title=f"{printed.title} ({printed.source})",
        source=printed.source,
        label=printed.label,
        first=_FIRST.get(printed.kind, "Method"),
        columns=columns,
        lines=lines,
        notes=_notes(printed, lines, yours),
    )


def render(rendering: Rendering, form: Format) -> str:
    if form == "markdown":
        return _markdown(rendering)
    if form == "latex":
        return latex_table(rendering)
    return _csv(rendering) if form == "csv" else _json(rendering)


def _printed_line(printed: PrintedTable, row: Row) -> Line:
    name = method_title(row.key) if printed.kind in _RANKED else row.name
    if printed.kind == "corner":
        name = row.key.replace("f", "f_")
    cells = [cell.text.replace("x", "✓") if cell.text == "x" else cell.text for cell in row.cells.values()]
    return Line(row.key, name, cells, quoted=row.quoted)


def _your_line(entry: Series, columns: list[str], printed: PrintedTable) -> Line:
    per_session = entry.novel_per_session() if printed.kind == "novel" else entry.aacc_per_session()
    sessions = iter(per_session)
    values = {"aacc": entry.aacc(), "gacc": entry.gacc()}
    cells = []
    for column in columns:
        if column.isdigit():
            cells.append(f"{next(sessions):.1f}")
        elif column == "avg":
            cells.append(f"{sum(per_session) / len(per_session):.2f}")
        elif column in values:
            mean, spread = values[column]
            cells.append(f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}")
        else:
            cells.append("-" if column == "params" else "")
    other = "" if entry.dataset in (printed.dataset, datasets()[printed.dataset].title) else f" on {entry.dataset}"
    return Line(entry.key, f"{entry.title}{other}", cells, yours=True)


def _rank(lines: list[Line], columns: list[str]) -> list[Line]:
    """Best and second best in the columns that the paper marks: the last session and the summaries."""
    last = max((column for column in columns if column.isdigit()), key=int)
    ranks = [[""] * len(columns) for _ in lines]
    for j, column in enumerate(columns):
        if column not in (last, "aacc", "gacc", "avg"):
            continue
        values = [_value(line.cells[j]) for line in lines]
        order = sorted({value for value in values if value is not None}, reverse=True)
        for i, value in enumerate(values):
            if value is not None and value in order[:2]:
                ranks[i][j] = "best" if value == order[0] else "second"
    return [replace(line, ranks=rank) for line, rank in zip(lines, ranks, strict=True)]


def _value(cell: str) -> float | None:
    try:
        return float(cell.split(" ±")[0])
    except ValueError:
        return None


def _notes(printed: PrintedTable, lines: list[Line], yours: Sequence[Series]) -> list[str]:
    notes = []
    if any(line.ranks and any(line.ranks) for line in lines):
        notes.append("Bold: best. Underlined: second best. gAcc is the grid variant.")
    if any(line.quoted for line in lines):
        notes.append("†: quoted from the method's own paper.")
    if yours:
        several = any(len(entry.matrices) > 1 for entry in yours)
        spread = " mean ± standard deviation over draws of the shots." if several else ""
        notes.append(f"‡: your runs, not in the paper;{spread or ' one draw of the shots.'}")
    doubtful = doubtful_values(printed) if printed.kind in _RANKED else set()
    if doubtful:
        values = ", ".join(f"{method_title(key)}'s {COLUMNS[column]}" for key, column in sorted(doubtful))
        notes.append(f"As printed; contradicts its own row: {values} (see `fscil paper audit`).")
    return notes


def _markdown(rendering: Rendering) -> str:
    rows = []
    for line in rendering.lines:
        ranks = line.ranks or [""] * len(line.cells)
        cells = [_emphasis(cell, rank) for cell, rank in zip(line.cells, ranks, strict=True)]
        rows.append([f"{line.name}{'†' if line.quoted else ''}{' ‡' if line.yours else ''}", *cells])
    body = markdown_table([rendering.first, *rendering.headers], rows)
    return (
        "\n\n".join([f"**{rendering.title}**", body, *([" ".join(rendering.notes)] if rendering.notes else [])]) + "\n"
    )


def _emphasis(cell: str, rank: str) -> str:
    return {"best": f"**{cell}**", "second": f"<u>{cell}</u>"}.get(rank, cell)


def _csv(rendering: Rendering) -> str:
    """Numbers as printed and nothing else; a spread goes into a column of its own."""
    columns, lines = rendering.columns, rendering.lines
    spreads = [column for j, column in enumerate(columns) if any("±" in line.cells[j] for line in lines)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["key", "name", "quoted", "yours", *columns, *(f"{column}_sd" for column in spreads)])
    for line in lines:
        pairs = dict(zip(columns, [(*cell.split(" ± "), "")[:2] for cell in line.cells], strict=True))
        flags = ["yes" if line.quoted else "no", "yes" if line.yours else "no"]
        means = [mean.replace("✓", "x") for mean, _ in pairs.values()]
        writer.writerow([line.key, line.name, *flags, *means, *(pairs[column][1] for column in spreads)])
    return text.getvalue()


def _json(rendering: Rendering) -> str:
    rows = []
    for line in rendering.lines:
        cells = dict(zip(rendering.columns, line.cells, strict=True))
        flags = {"quoted": line.quoted, "yours": line.yours}
        rows.append({"key": line.key, "name": line.name, **flags, "cells": cells})
    document = {"title": rendering.title, "source": rendering.source, "rows": rows, "notes": rendering.notes}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

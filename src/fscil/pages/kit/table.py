"""One table for every medium: HTML (by the templates), Markdown, LaTeX, CSV, plain text."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from fscil.core.text import spreadsheet_cell
from fscil.pages.kit.prose import number
from fscil.results.significance import Spread

Rank = Literal["", "best", "second"]


@dataclass(frozen=True)
class CellChange:
    """A difference printed below a value: better, worse, or neither."""

    text: str
    kind: Literal["good", "bad", "unclear"] = "unclear"
    sign: str = ""  # ▲ ▼ ≈
    word: str = ""  # what the sign says, for those who do not see it


@dataclass(frozen=True)
class TableCell:
    """What one cell shows, as printed."""

    text: str
    std: str = ""  # after ±, quieter
    rank: Rank = ""
    change: CellChange | None = None
    data: Mapping[str, str] = field(default_factory=dict)  # data-KEY attributes: how scripts find a number in a page

    @property
    def plain(self) -> str:
        """As text; a change is only shown where the cell holds nothing else."""
        if self.change and not self.text:
            return f"{self.change.sign} {self.change.text}".strip()
        return f"{self.text} ± {self.std}" if self.std else self.text


@dataclass(frozen=True)
class Column:
    """A column's head."""

    label: str
    note: str = ""  # below it, smaller
    key: str = ""  # for CSV; the label where it is empty
    group: str = ""  # neighbours of one group get a common head in LaTeX


@dataclass(frozen=True)
class TableRow:
    """The first cell names the row."""

    cells: tuple[TableCell, ...]
    note: str = ""  # below the name, smaller
    group: str = ""  # rows of one group stand together under its title

    @property
    def plain(self) -> list[str]:
        return [cell.plain for cell in self.cells]


@dataclass(frozen=True)
class Table:
    title: str  # the caption, and what a screen reader says
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    label: str = ""  # LaTeX
    style: str = ""  # CSS class

    @property
    def header(self) -> list[str]:
        return [column.label for column in self.columns]

    @property
    def groups(self) -> list[tuple[str, list[TableRow]]]:
        return [(title, list(rows)) for title, rows in groupby(self.rows, key=lambda row: row.group)]


def table(
    title: str, header: Sequence[str | Column], rows: Iterable[Sequence[str | TableCell] | TableRow], *, style: str = ""
) -> Table:
    """From plain texts, and cells where more than text is needed."""
    columns = tuple(head if isinstance(head, Column) else Column(head) for head in header)
    made = (
        row if isinstance(row, TableRow) else TableRow(tuple(c if isinstance(c, TableCell) else cell(c) for c in row))
        for row in rows
    )
    return Table(title, columns, tuple(made), style=style)


def cell(text: str) -> TableCell:
    """Of a text that may hold a ±."""
    mean, _, std = text.partition(" ± ")
    return TableCell(mean, std)


def spread_cell(value: Spread | None, digits: int = 2, *, best: bool = False, **data: str) -> TableCell:
    """Mean and standard deviation; a dash where there is nothing."""
    if value is None:
        return TableCell("–", data=data)
    std = "" if value.std is None else number(value.std, digits)
    return TableCell(number(value.mean, digits), std, "best" if best else "", data=data)


def markdown(made: Table) -> str:
    """Reads well as text too: columns padded to their widest cell, columns of numbers aligned to the right."""
    body = [[_emphasis(c) for c in row.cells] for row in made.rows]
    cells = [[text.replace("|", "\\|") for text in row] for row in (made.header, *body)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(made.columns))]
    right = [bool(body) and all(_is_number(row[i]) for row in body) for i in range(len(made.columns))]

    def line(row: Sequence[str]) -> str:
        padded = zip(row, widths, right, strict=True)
        return f"| {' | '.join(text.rjust(width) if side else text.ljust(width) for text, width, side in padded)} |"

    rule = ["-" * (width - 1) + ":" if side else "-" * width for width, side in zip(widths, right, strict=True)]
    return "\n".join([line(cells[0]), f"| {' | '.join(rule)} |", *map(line, cells[1:])])


def _emphasis(c: TableCell) -> str:
    return {"best": f"**{c.plain}**", "second": f"<u>{c.plain}</u>"}.get(c.rank, c.plain)


def _is_number(text: str) -> bool:
    bare = text.strip("*_-<u>/ ±")
    return not bare or bare.replace(".", "").replace("±", "").replace(" ", "").isdigit()


def text(made: Table, *, upright: bool = False) -> str:
    """For a terminal; `upright` puts the columns below each other, for few rows of many columns."""
    lines = [made.header, *(row.plain for row in made.rows)]
    grid = [list(line) for line in zip(*lines, strict=True)] if upright else lines
    widths = [max(len(line[place]) for line in grid) for place in range(len(grid[0]))]
    rows = ["  ".join(c.ljust(width) for c, width in zip(line, widths, strict=True)).rstrip() for line in grid]
    return "\n".join([rows[0], "-" * max(map(len, rows)), *rows[1:]])


def csv_text(made: Table) -> str:
    """Numbers as printed and nothing else; a deviation goes into a column of its own."""
    spreads = [i for i in range(len(made.columns)) if any(row.cells[i].std for row in made.rows)]
    names = [column.key or column.label for column in made.columns]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, [*names, *(f"{names[i]}_sd" for i in spreads)]))
    for row in made.rows:
        writer.writerow([*(_csv_cell(c.text) for c in row.cells), *(row.cells[i].std for i in spreads)])
    return written.getvalue()


def _csv_cell(text: str) -> str:
    """Programs read a number only with a plain minus."""
    return text.replace("−", "-") if re.fullmatch(r"−[\d.]+", text) else spreadsheet_cell(text)


_SPECIAL = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}"}
_SYMBOLS = {
    "✓": r"\checkmark", "±": r"$\pm$", "†": r"\dag", "‡": r"\ddag", "β": r"$\beta$", "→": r"$\to$", "−": "$-$",
    "▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$", "≈": r"$\approx$", "α": r"$\alpha$", "–": "--",
}  # fmt: skip


def latex(made: Table) -> str:
    """A complete table environment; needs `booktabs`, and `amssymb` for check marks."""
    bodies = [[_latex_row(row) for row in rows] for _, rows in made.groups]
    rows = [line for i, body in enumerate(bodies) for line in ([r"\midrule"] * (i > 0) + body)]
    notes = [note for note in made.notes if "`" not in note]  # no commands in a caption
    caption = escape_latex(" ".join([f"{made.title}.", *notes]))
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{caption}}}",
            *([rf"\label{{{made.label}}}"] if made.label else []),
            rf"\begin{{tabular}}{{l{'c' * (len(made.columns) - 1)}}}",
            r"\toprule",
            *_latex_header(made),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def escape_latex(plain: str) -> str:
    """Losses, weights and layers such as L_CR, β_cos and f_3 become formulas, everything else is escaped."""
    if match := re.fullmatch(r"(L|β|f)_(\w+)", plain):
        letter = {"L": r"\mathcal{L}", "β": r"\beta", "f": "f"}[match[1]]
        return rf"${letter}_{{{match[2]}}}$"
    if " + " in plain and all(re.fullmatch(r"L_\w+", part) for part in plain.split(" + ")):
        return " + ".join(map(escape_latex, plain.split(" + "))).replace("$ + $", " + ")
    escaped = "".join(_SPECIAL.get(char, char) for char in plain)
    for symbol, command in _SYMBOLS.items():
        escaped = escaped.replace(symbol, command)
    return escaped


def _latex_row(row: TableRow) -> str:
    forms = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}
    return f"{' & '.join(forms.get(c.rank, '%s') % escape_latex(c.plain) for c in row.cells)} \\\\"


def _latex_header(made: Table) -> list[str]:
    """Neighbouring columns of one group get its title above them."""
    names = f"{' & '.join(escape_latex(label) for label in made.header)} \\\\"
    if not any(column.group for column in made.columns):
        return [names]
    spans, rules, place = [], [], 1
    for title, members in groupby(made.columns, key=lambda column: column.group):
        width = len(list(members))
        if title:
            spans.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(title)}}}")
            rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
        else:
            spans += [""] * width
        place += width
    return [f"{' & '.join(spans)} \\\\".strip(), "".join(rules), names]

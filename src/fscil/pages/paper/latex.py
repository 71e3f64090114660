"""Tables for papers: booktabs, best bold, second best underlined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fscil.pages.paper.tables import Line, Rendering

_SPECIAL = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}"}
_SYMBOLS = {"✓": r"\checkmark", "±": r"$\pm$", "†": r"\dag", "‡": r"\ddag", "β": r"$\beta$", "→": r"$\to$"}
_MATHS = {"L_cos + L_NovCE": r"$\mathcal{L}_{cos} + \mathcal{L}_{NovCE}$"}


def latex_table(rendering: Rendering) -> str:
    """A complete table environment; needs `booktabs`, and `amssymb` for check marks."""
    body = [_line(line) for line in rendering.lines if not line.yours]
    yours = [_line(line) for line in rendering.lines if line.yours]
    head = [rf"\begin{{tabular}}{{l{'c' * len(rendering.columns)}}}", r"\toprule", *_header(rendering), r"\midrule"]
    rows = [*body, *([r"\midrule", *yours] if yours else []), r"\bottomrule"]
    notes = [note for note in rendering.notes if "`" not in note]  # no commands in a caption
    caption = _escape(" ".join([f"{rendering.title}.", *notes]))
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{caption}}}",
            *([rf"\label{{{rendering.label}}}"] if rendering.label else []),
            *head,
            *rows,
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _header(rendering: Rendering) -> list[str]:
    """Session columns get one title above them."""
    cells = [_escape(rendering.first), *(_symbol(header) for header in rendering.headers)]
    sessions = [j for j, column in enumerate(rendering.columns) if column.isdigit()]
    names = f"{' & '.join(cells)} \\\\"
    if not sessions:
        return [names]
    first, last = sessions[0] + 2, sessions[-1] + 2  # columns count from 1, after the name
    what = "Accuracy on novel classes" if rendering.columns[sessions[0]] == "2" else "aAcc"
    blanks = " & ".join([""] * (first - 1))
    spanned = rf"{blanks} & \multicolumn{{{len(sessions)}}}{{c}}{{{what} after each task (\%)}}"
    tail = " &" * (len(rendering.columns) + 1 - last)
    return [f"{spanned}{tail} \\\\".strip(), rf"\cmidrule(lr){{{first}-{last}}}", names]


def _line(line: Line) -> str:
    ranks = line.ranks or [""] * len(line.cells)
    mark = r"\dag" if line.quoted else (r"\ddag" if line.yours else "")
    cells = [_rank(_escape(cell), rank) for cell, rank in zip(line.cells, ranks, strict=True)]
    return f"{' & '.join([_escape(line.name) + mark, *cells])} \\\\"


def _rank(cell: str, rank: str) -> str:
    return {"best": rf"\textbf{{{cell}}}", "second": rf"\underline{{{cell}}}"}.get(rank, cell)


def _symbol(header: str) -> str:
    """Losses and weights are formulas."""
    if header in _MATHS:
        return _MATHS[header]
    match = re.fullmatch(r"(L|β)_(\w+)", header)
    if match is None:
        return _escape(header)
    letter = r"\mathcal{L}" if match[1] == "L" else r"\beta"
    return rf"${letter}_{{{match[2]}}}$"


def _escape(text: str) -> str:
    formula = re.sub(r"\b(f)_(\d+)", r"\1\2", text) if re.fullmatch(r"f_\d+", text) else ""
    if formula:
        return rf"$f_{{{formula[1:]}}}$"
    escaped = "".join(_SPECIAL.get(char, char) for char in text)
    for symbol, command in _SYMBOLS.items():
        escaped = escaped.replace(symbol, command)
    return escaped

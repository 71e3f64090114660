"""The tables in the paper's LaTeX source, cell by cell as printed: the independent side of the comparison."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TABLE_LABEL = re.compile(r"\\label\{(tab(?:le)?:[^}]+)\}")
_RULES = re.compile(r"\\(?:toprule|midrule|bottomrule|hline|hdashline|cmidrule|cline)(?:\[[^]]*\])?(?:\{[^}]*\})?")
_BOLD = re.compile(r"\\textbf\{|\\bf(?![a-z])")


@dataclass(frozen=True)
class TexCell:
    """One cell: its text without commands, and how it is set."""

    text: str
    bold: bool = False
    underlined: bool = False
    dagger: bool = False


def tables(source: str) -> dict[str, list[list[TexCell]]]:
    """Label -> body rows. Every table has one label and one outermost tabular, in the same order."""
    labels = _TABLE_LABEL.findall(source)
    bodies = _tabulars(source)
    if len(labels) != len(bodies):
        raise ValueError(f"{len(labels)} table labels but {len(bodies)} tabulars")
    return {label: _rows(body) for label, body in zip(labels, bodies, strict=True)}


def _tabulars(source: str) -> list[str]:
    """The outermost tabular environments; one nested in a header cell stays inside."""
    found, depth, start = [], 0, 0
    for match in re.finditer(r"\\(begin|end)\{tabular\}", source):
        if match[1] == "begin":
            start = match.end() if depth == 0 else start
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                found.append(source[start : match.start()])
    return found


def _rows(body: str) -> list[list[TexCell]]:
    lines = body
    for rule in re.finditer(r"\\(?:midrule|hline)", body):
        if "&" in body[: rule.start()].split("}", 1)[-1]:  # the first rule below the header, not the one above it
            lines = body[rule.end() :]
            break
    rows = [_RULES.sub("", line).strip() for line in re.split(r"\\\\", lines)]
    return [[_cell(cell) for cell in row.split("&")] for row in rows if "&" in row]


def _cell(tex: str) -> TexCell:
    marks = {"bold": bool(_BOLD.search(tex)), "underlined": r"\underline" in tex, "dagger": r"\dag" in tex}
    text = re.sub(r"\\rowcolor\[[^]]*\]\{[^}]*\}|~?\\cite\{[^}]*\}|\\dag", "", tex)
    text = text.replace(r"\checkmark", "x")
    text = re.sub(r"\\(?:textbf|underline|bf)(?![a-z])", "", text)
    return TexCell(re.sub(r"[{}~$\\\s]+", " ", text).strip(), **marks)

"""Markdown tables that also read well as text."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; columns of numbers aligned to the right."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [all(_is_number(row[i]) for row in rows) and bool(rows) for i in range(len(header))]
    lines = [_line(row, widths, right) for row in cells]
    rule = ["-" * (width - 1) + ":" if side else "-" * width for width, side in zip(widths, right, strict=True)]
    return "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if side else cell.ljust(width) for cell, width, side in zip(row, widths, right, strict=True)
    ]
    return f"| {' | '.join(padded)} |"


def _is_number(cell: str) -> bool:
    text = cell.strip("*_-<u>/ ±")
    return not text or text.replace(".", "").replace("±", "").replace(" ", "").isdigit()

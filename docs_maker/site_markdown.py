"""Markdown as the site's builder reads it: GitHub needs no line before a list, nor four spaces in one inside another.

And numbers with their spread stay on one line of a table, however narrow the window.
"""

import re

from docs_maker.site_links import FENCED

_ITEM = re.compile(r"( *)((?:[-*]|\d+\.) .*)")


def adapted(markdown: str) -> str:
    """A blank line before every list, and four spaces a level; code blocks stay as they are."""
    parts = FENCED.split(markdown)
    parts[::2] = [_unbroken(_lists(part)) for part in parts[::2]]
    return "".join(parts)


def _unbroken(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(line.replace(" ± ", "\u00a0±\u00a0") if line.startswith("|") else line for line in lines)


def _lists(text: str) -> str:
    lines: list[str] = []
    outer: list[int] = []  # indents of the items that the present one stands in; empty outside lists
    for line in text.split("\n"):
        item, before = _ITEM.fullmatch(line), lines[-1] if lines else ""
        if item and (outer or len(item[1]) < 4):
            if not outer and before.strip():
                lines.append("")
            indent = len(item[1])
            while outer and outer[-1] >= indent:
                outer.pop()
            lines.append("    " * len(outer) + item[2])
            outer.append(indent)
            continue
        if outer and line and not line.startswith(" ") and not before.strip():
            outer.clear()
        lines.append(line)
    return "\n".join(lines)

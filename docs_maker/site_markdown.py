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
    outer: list[int] = []  # indents of the items that the present line stands in; empty outside lists
    paragraph = True  # nothing, or a paragraph, stands before: an item needs a blank line to follow it
    for line in text.split("\n"):
        item, after_blank = _ITEM.fullmatch(line), not lines or not lines[-1].strip()
        if item and (outer or len(item[1]) < 4):
            if paragraph and not after_blank:
                lines.append("")
            indent, paragraph = len(item[1]), False
            while outer and outer[-1] >= indent:
                outer.pop()
            lines.append("    " * len(outer) + item[2])
            outer.append(indent)
            continue
        words = line.lstrip(" ")
        if words and after_blank:
            paragraph = True
            if words == line:
                outer.clear()
        level = sum(indent < len(line) - len(words) for indent in outer) if words else 0
        lines.append("    " * level + words if level else line)
    return "\n".join(lines)

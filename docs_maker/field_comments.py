"""For the API reference: what stands as a comment beside or above a field says what the field is."""

import re
from pathlib import Path
from typing import Any

import griffe

_BESIDE = re.compile(r"#\s(?P<text>[^\"']*)$")
_ABOVE = re.compile(r"\s*#\s(?P<text>.*)$")


class FieldComments(griffe.Extension):
    """Griffe knows docstrings alone; the fields of this project's dataclasses have comments."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        if attr.docstring or not isinstance(attr.parent, griffe.Class) or not attr.lineno or not attr.endlineno:
            return
        if not isinstance(attr.filepath, Path):
            return
        lines, found = attr.lines_collection[attr.filepath], list[str]()
        above = attr.lineno - 2  # lineno counts from 1
        while above >= 0 and (match := _ABOVE.match(lines[above])):
            found.insert(0, match["text"])
            above -= 1
        if match := _BESIDE.search(lines[attr.endlineno - 1]):
            found.append(match["text"])
        if found := [text for text in found if not text.startswith(("fmt:", "noqa"))]:
            attr.docstring = griffe.Docstring(" ".join(found), parent=attr, parser="google")

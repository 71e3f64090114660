"""What griffe reads from the sources for the API reference, as the site's builder needs it."""

import re
from pathlib import Path
from typing import Any

import griffe

from docs_maker.site_markdown import adapted

_BESIDE = re.compile(r"#\s(?P<text>[^\"']*)$")
_ABOVE = re.compile(r"\s*#\s(?P<text>.*)$")


class ReferenceTexts(griffe.Extension):
    """Griffe knows docstrings alone; the fields of this project's dataclasses have comments, beside or above them."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if isinstance(obj, griffe.Attribute) and not obj.docstring and isinstance(obj.parent, griffe.Class):
            self._take_comments(obj)
        if obj.docstring:
            obj.docstring.value = adapted(obj.docstring.value)

    def _take_comments(self, field: griffe.Attribute) -> None:
        if not (field.lineno and field.endlineno and isinstance(field.filepath, Path)):
            return
        lines, found = field.lines_collection[field.filepath], list[str]()
        above = field.lineno - 2  # lineno counts from 1
        while above >= 0 and (match := _ABOVE.match(lines[above])):
            found.insert(0, match["text"])
            above -= 1
        if match := _BESIDE.search(lines[field.endlineno - 1]):
            found.append(match["text"])
        if texts := [text for text in found if not text.startswith(("fmt:", "noqa"))]:
            field.docstring = griffe.Docstring(" ".join(texts), parent=field, parser="google")

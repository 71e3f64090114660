"""Jinja templates: in HTML whatever is not markup already is escaped, so no name can break out of its place."""

import base64
import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fscil.metrics.names import label
from fscil.pages.kit import prose
from fscil.pages.kit.looks import role_of
from fscil.pages.kit.svg import swatch
from fscil.pages.kit.table import Table, csv_text, latex, markdown
from fscil.results.significance import LEVEL


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fscil.pages", "templates"),
        autoescape=lambda name: not str(name).endswith(".md.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(prose, name)
        for name in ("number", "signed", "percent", "plus_minus", "plural", "counted", "listed", "capitalised")
    }
    environment.filters |= {"markdown": markdown, "csv_link": _csv_link, "latex_link": _latex_link}
    environment.globals |= {"swatch": swatch, "role_of": role_of, "label": label, "level": LEVEL}
    return environment


def _csv_link(made: Table) -> str:
    # The mark tells spreadsheets that it is UTF-8.
    return _file_link("text/csv", "\ufeff" + csv_text(made))


def _latex_link(made: Table) -> str:
    return _file_link("application/x-tex", latex(made))


def _file_link(kind: str, text: str) -> str:
    """A file inside a link: the page stays one file, and needs no script to save it."""
    return f"data:{kind};base64,{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}"


def render(template: str, **context: Any) -> str:
    """A page of pages/templates; the same context gives the same text."""
    style = Markup((files("fscil.pages.kit") / "style.css").read_text(encoding="utf-8"))
    page = _environment().get_template(template).render(style=style, **context)
    # A lone surrogate in a name is legal in JSON but not in a file.
    return page.encode("utf-8", "replace").decode("utf-8")


def note(name: str, **context: Any) -> str:
    """One of the explanations of notes.md.j2, as a line of text."""
    written: str = getattr(_environment().get_template("notes.md.j2").module, name)(**context)
    return re.sub(r"[ \n]+", " ", written).strip()  # a space that must not break stays as it is


def glossary(only: Collection[str] | None = None) -> list[tuple[str, str]]:
    """Terms with their meaning, in reading order; of these words only."""
    entries = (entry.strip().partition(": ") for entry in note("glossary").split("|"))
    return [(term, meaning) for term, _, meaning in entries if only is None or term in only]

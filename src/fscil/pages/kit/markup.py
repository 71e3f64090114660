"""HTML from nested calls: whatever is not markup already is escaped, so no name can break out of its place."""

from __future__ import annotations

from html import escape

_VOID = frozenset({"meta", "br"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, /, *children: str | None, **attributes: str | float | bool | None) -> Html:
    """`<name attributes>children</name>`; class_ gives class, data_key gives data-key, None leaves out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def join(*parts: str | None) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts if part is not None))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def number(value: float | None, digits: int = 2) -> str:
    """Rounded for print, with a true minus sign and never a negative zero; a dash where there is none."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def signed(value: float, digits: int = 2) -> str:
    text = number(value, digits)
    return text if text.startswith("−") or float(text) == 0 else f"+{text}"


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{number(value, digits)}\u00a0%"


def listed(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))

"""Colours as roles: figures are drawn in placeholder colours that become CSS variables, so one figure suits light and
dark. Method colours are Okabe and Ito's, safe for colour-blind readers; markers and dashes tell lines apart in grey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from zlib import crc32

# The order of the series colours: strongest contrast on white first. style.css gives each its light and dark value.
SERIES = ("c0", "c1", "c2", "c3", "c4", "c5", "c6")
ROLES = ("ink", "muted", "line", "grid", "paper", "heat", *SERIES)
MARKERS = ("*", "o", "s", "^", "D", "v", "P")
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1.2), (6, 1.5, 1, 1.5), (3, 1), (8, 2), (2, 2))
_KNOWN = {"yourself": 0, "prototypes": 1}  # the pair shown first and most often
_PLACEHOLDER = re.compile("#0101([0-9a-f]{2})")


@dataclass(frozen=True)
class Style:
    """How one method or class is drawn everywhere on the page."""

    role: str
    marker: str
    dashes: tuple[float, ...] = ()

    @property
    def colour(self) -> str:
        return colour(self.role)

    @property
    def size(self) -> float:
        """Of the marker; a star is mostly air and needs more."""
        return 10.0 if self.marker == "*" else 5.5

    @property
    def line(self) -> Any:
        """The dashes as matplotlib takes them."""
        return (0, self.dashes) if self.dashes else "solid"


def colour(role: str) -> str:
    """The placeholder that a figure is drawn in."""
    return f"#0101{ROLES.index(role):02x}"


def to_variables(svg: str) -> str:
    """Placeholders to CSS variables."""
    return _PLACEHOLDER.sub(lambda match: f"var(--{ROLES[int(match[1], 16)]})", svg)


def style(slot: int) -> Style:
    """Seven colours, each with its own marker and dash; a further round shifts the markers."""
    turn, index = divmod(slot, len(SERIES))
    return Style(SERIES[index], MARKERS[(slot + turn) % len(MARKERS)], DASHES[(slot + 3 * turn) % len(DASHES)])


def method_styles(methods: Iterable[str]) -> dict[str, Style]:
    """A method keeps its slot from page to page: it follows from its name, unless another method has taken it."""
    names = sorted(set(methods), key=lambda name: (name not in _KNOWN, name))
    slots: dict[str, int] = {}
    for name in names:
        taken = set(slots.values())
        slots[name] = next(slot for slot in _preferences(name) if slot not in taken)
    return {name: style(slot) for name, slot in slots.items()}


def _preferences(name: str) -> Iterator[int]:
    """Slots in the order a method would like them: its own, the other unclaimed colours, then further rounds."""
    if name in _KNOWN:
        yield _KNOWN[name]
    free = range(len(_KNOWN), len(SERIES))
    start = crc32(name.encode("utf-8", "replace")) % len(free)
    yield from (*free[start:], *free[:start])
    yield from count(len(SERIES))

"""Colours as roles: figures are drawn in placeholder colours that become CSS variables, so one figure suits light and
dark. Which colour, marker and dash a method has is `fscil.core.palette`'s to say, so that it looks alike in every figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fscil.core import palette

# style.css gives each of them its light and dark value; strongest contrast on white first.
_ROLE_OF = {
    palette.VERMILLION: "c0",
    palette.BLUE: "c1",
    palette.GREEN: "c2",
    palette.PURPLE: "c3",
    palette.ORANGE: "c4",
    palette.SKY: "c5",
    palette.BLACK: "c6",
    palette.GREY: "c7",
}
SERIES = tuple(_ROLE_OF.values())[:7]  # grey is left to the corner cases: it would pass for a base class
ROLES = ("ink", "muted", "line", "grid", "paper", "heat", *_ROLE_OF.values())
MARKERS = ("*", "o", "s", "^", "D", "v", "P")
_PLACEHOLDER = re.compile("#0101([0-9a-f]{2})")


@dataclass(frozen=True)
class Style:
    """How one method or class is drawn everywhere on the page."""

    role: str
    marker: str
    dashes: tuple[float, ...] = ()
    hollow: bool = False  # the marker is an outline

    @property
    def colour(self) -> str:
        return colour(self.role)

    @property
    def face(self) -> str:
        """Fill of the marker."""
        return colour("paper") if self.hollow else self.colour

    @property
    def edge(self) -> str:
        """Outline of the marker: a filled one is set off from its line by the paper's colour."""
        return self.colour if self.hollow else colour("paper")

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


def method_styles(methods: Iterable[str]) -> dict[str, Style]:
    """The look of each method, as in all other figures."""
    return {
        name: Style(_ROLE_OF[look.colour], look.marker, look.dashes, look.hollow)
        for name, look in palette.styles(methods).items()
    }

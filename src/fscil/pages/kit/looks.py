"""One style for every figure, in two themes.

On a page, figures are drawn in placeholder colours that become CSS variables, so that one figure suits light and dark.
In print (PNG, SVG and PDF files) they have the colours of `fscil.core.palette`. Which colour, marker and dash a method
has is the palette's to say, so that it looks alike in every figure.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from matplotlib import rc_context

from fscil.core import palette
from fscil.core.palette import Style

# style.css gives each of them its light and dark value; the hexadecimal is the one in print.
ROLES = {
    "ink": "#1b2127", "muted": "#5a6570", "line": "#b9c0c7", "grid": "#e3e3e3", "paper": "#ffffff", "heat": "#0072b2",
    "c0": palette.VERMILLION, "c1": palette.BLUE, "c2": palette.GREEN, "c3": palette.PURPLE, "c4": palette.ORANGE,
    "c5": palette.SKY, "c6": palette.BLACK, "c7": palette.GREY,
}  # fmt: skip
_ROLE_OF = {colour: role for role, colour in ROLES.items() if role.startswith("c")}
SERIES = tuple(_ROLE_OF)[:7]  # grey is left to the corner cases: it would pass for a base class
MARKERS = ("*", "o", "s", "^", "D", "v", "P")
_PLACEHOLDER = re.compile("#0101([0-9a-f]{2})")

Theme = Literal["page", "print"]
_theme: Theme = "page"


def role_of(colour: str) -> str:
    """The CSS variable of a palette colour; a role stands for itself."""
    return _ROLE_OF.get(colour, colour)


def paint(colour: str) -> str:
    """What to draw a role or a palette colour with in the current theme."""
    role = role_of(colour)
    return ROLES[role] if _theme == "print" else f"#0101{list(ROLES).index(role):02x}"


def to_variables(svg: str) -> str:
    """Placeholders to CSS variables."""
    return _PLACEHOLDER.sub(lambda match: f"var(--{list(ROLES)[int(match[1], 16)]})", svg)


def size_of(style: Style) -> float:
    """Of the marker; a star is mostly air and needs more."""
    return 10.0 if style.marker == "*" else 5.5


def line_look(style: Style, *, size: float = 1.0, strong: bool = False) -> dict[str, Any]:
    """Keyword arguments of `Axes.plot` and `Axes.errorbar`; `strong` sets a user's line off from published ones."""
    on_page = _theme == "page"
    # On a page a filled marker is set off from its line by the paper's colour; the small ones in print would vanish.
    edge = "ink" if strong else "paper" if on_page and not style.hollow else style.colour
    return {
        "color": paint(style.colour),
        "linestyle": (0, style.dashes) if style.dashes else "solid",
        "linewidth": 2.4 if strong else 1.8 if on_page else 1.3,
        "marker": style.marker,
        "markersize": size * size_of(style) * (1.0 if on_page else 0.8),
        "markerfacecolor": paint("paper") if style.hollow else paint(style.colour),
        "markeredgecolor": paint(edge),
        "markeredgewidth": (1.4 if style.hollow else 0.8) if on_page else 1.0,
    }


@contextmanager
def themed(theme: Theme) -> Iterator[None]:
    """Everything drawn inside the block is of this theme."""
    global _theme
    before, _theme = _theme, theme
    try:
        with rc_context(_settings()):
            yield
    finally:
        _theme = before


def _settings() -> Any:
    shared = {
        "axes.edgecolor": paint("line"),
        "axes.labelcolor": paint("ink"),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": paint("grid"),
        "grid.linewidth": 0.6,
        "text.color": paint("ink"),
        "legend.frameon": False,
        "hatch.linewidth": 0.7,
    }
    if _theme == "print":
        return {
            **shared,
            "axes.edgecolor": paint("muted"),  # thin light lines get lost on paper
            "xtick.color": paint("muted"),
            "ytick.color": paint("muted"),
            "xtick.labelcolor": paint("ink"),
            "ytick.labelcolor": paint("ink"),
            "lines.linewidth": 1.3,
            "lines.markersize": 4.5,
            "font.size": 9.0,
            "axes.titlesize": 9.5,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.labelsize": 9.0,
            "legend.fontsize": 8.5,
            "svg.hashsalt": "fscil",  # identical files for identical figures
            "pdf.fonttype": 42,  # text stays text
        }
    return {
        **shared,
        # Text stays text: smaller than outlines, selectable, and in the page's font. matplotlib lays it out with
        # DejaVu Sans, which is wider than any system font, so what fits there fits everywhere.
        "svg.fonttype": "none",
        "font.family": ["DejaVu Sans"],
        "font.size": 10,
        "axes.labelsize": 10,
        "xtick.color": paint("muted"),
        "ytick.color": paint("muted"),
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "text.parse_math": False,  # a dollar sign in a name is a dollar sign
        "lines.linewidth": 1.8,
    }

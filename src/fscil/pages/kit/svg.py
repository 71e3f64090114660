"""matplotlib figures as inline SVG: real text in the page's font, transparent, coloured by CSS variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from fscil.pages.kit.looks import Style, colour, to_variables
from fscil.pages.kit.markup import Html, element

WIDTH = 340  # of a panel, in its own units: at this width on a phone a font size of 10 is 10 pixels
_SETTINGS: Any = {
    # Text stays text: smaller than outlines, selectable, and in the page's font. matplotlib lays it out with
    # DejaVu Sans, which is wider than any system font, so what fits there fits everywhere.
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.edgecolor": colour("line"),
    "axes.labelcolor": colour("ink"),
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": colour("grid"),
    "grid.linewidth": 0.6,
    "xtick.color": colour("muted"),
    "ytick.color": colour("muted"),
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "text.color": colour("ink"),
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "lines.linewidth": 1.8,
}


class Drawing:
    """One panel; `markup` gives its SVG."""

    def __init__(self, height: float, margins: tuple[float, float, float, float], width: float = WIDTH) -> None:
        left, right, bottom, top = margins
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        area = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        self.axes: Axes = self.figure.add_axes(area)

    def markup(self, name: str, label: str) -> Html:
        """`name` keeps ids apart on the page, `label` is what a screen reader says."""
        buffer = StringIO()
        # The salt makes ids depend on the content alone: the same input gives the same bytes.
        with rc_context({"svg.hashsalt": name}):
            self.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        width, height = self.figure.get_size_inches() * 72
        box = f"0 0 {width:g} {height:g}"
        return element("svg", _inner(buffer.getvalue()), viewBox=box, role="img", aria_label=label)


@contextmanager
def drawing(
    height: float, margins: tuple[float, float, float, float] = (42, 8, 33, 8), width: float = WIDTH
) -> Iterator[Drawing]:
    """A panel of this height with margins left, right, bottom, top; draw and take its markup inside the block."""
    with rc_context(_SETTINGS):
        yield Drawing(height, margins, width)


def swatch(style: Style, line: bool = True) -> Html:
    """The marker of a legend entry, on a piece of its line."""
    shape = MarkerStyle(style.marker)
    size = 1.3 * style.size
    outline = shape.get_path().transformed(shape.get_transform() + Affine2D().scale(size, -size))
    paint = f"var(--{style.role})"
    look = f"fill:var(--paper);stroke:{paint};stroke-width:1.4" if style.hollow else f"fill:{paint}"
    marker = element("path", d=_outline(outline), transform="translate(15 7)", style=look)
    dash = ",".join(f"{1.8 * length:g}" for length in style.dashes) or "none"
    stroke = f"stroke:{paint};stroke-width:1.8;stroke-dasharray:{dash}"
    stem = element("path", d="M0 7H30", style=stroke) if line else None
    box = "0 0 30 14" if line else "8 0 14 14"
    return element("svg", stem, marker, viewBox=box, class_="swatch", aria_hidden="true")


def _outline(path: Path) -> str:
    letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
    steps = []
    for vertices, code in path.iter_segments(simplify=False):
        numbers = "" if code == Path.CLOSEPOLY else " ".join(f"{value:.2f}" for value in vertices)
        steps.append(f"{letters[code]}{numbers}")
    return "".join(steps)


def _inner(document: str) -> Html:
    """What is inside <svg>, without what an HTML page does not need or must not have twice."""
    inner = document[document.index(">", document.index("<svg")) + 1 : document.rindex("</svg>")]
    inner = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style .*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r'<g id="[^"]*"', "<g", inner)
    inner = inner.replace("xlink:href", "href")
    inner = re.sub(r"font-family: [^;\"]*;? ?", "", inner)
    inner = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", inner)
    inner = re.sub(r"\s*\n\s*", "\n", inner).strip()
    return Html(to_variables(inner))

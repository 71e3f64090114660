"""matplotlib figures as inline SVG: real text in the page's font, transparent, coloured by CSS variables."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from fscil.core.palette import Style
from fscil.pages.kit.looks import role_of, size_of, themed, to_variables

WIDTH = 340  # of a panel, in its own units: at this width on a phone a font size of 10 is 10 pixels


class Panel:
    """One drawing; `markup` gives its SVG."""

    def __init__(self, height: float, margins: tuple[float, float, float, float], width: float) -> None:
        left, right, bottom, top = margins
        self.height = height
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        area = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        self.axes: Axes = self.figure.add_axes(area)

    def markup(self, name: str, label: str) -> Markup:
        """`name` keeps ids apart on the page, `label` is what a screen reader says."""
        buffer = StringIO()
        # The salt makes ids depend on the content alone: the same input gives the same bytes.
        with rc_context({"svg.hashsalt": name}):
            self.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        width, height = self.figure.get_size_inches() * 72
        opening = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
        return Markup(f"{opening}{_inner(buffer.getvalue())}</svg>")


@contextmanager
def panel(
    height: float, margins: tuple[float, float, float, float] = (42, 8, 33, 8), width: float = WIDTH
) -> Iterator[Panel]:
    """A panel of this height with margins left, right, bottom, top; draw and take its markup inside the block."""
    with themed("page"):
        yield Panel(height, margins, width)


def swatch(style: Style, line: bool = True) -> Markup:
    """The marker of a legend entry, on a piece of its line."""
    shape = MarkerStyle(style.marker)
    size = 1.3 * size_of(style)
    outline = shape.get_path().transformed(shape.get_transform() + Affine2D().scale(size, -size))
    ink = f"var(--{role_of(style.colour)})"
    look = f"fill:var(--paper);stroke:{ink};stroke-width:1.4" if style.hollow else f"fill:{ink}"
    dash = ",".join(f"{1.8 * length:g}" for length in style.dashes) or "none"
    stem = f'<path d="M0 7H30" style="stroke:{ink};stroke-width:1.8;stroke-dasharray:{dash}"></path>' if line else ""
    box = "0 0 30 14" if line else "8 0 14 14"
    return Markup(
        f'<svg viewBox="{box}" class="swatch" aria-hidden="true">{stem}'
        f'<path d="{_outline(outline)}" transform="translate(15 7)" style="{look}"></path></svg>'
    )


def _outline(path: Path) -> str:
    letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
    steps = []
    for vertices, code in path.iter_segments(simplify=False):
        numbers = "" if code == Path.CLOSEPOLY else " ".join(f"{value:.2f}" for value in vertices)
        steps.append(f"{letters[code]}{numbers}")
    return "".join(steps)


def _inner(document: str) -> str:
    """What is inside <svg>, without what an HTML page does not need or must not have twice."""
    inner = document[document.index(">", document.index("<svg")) + 1 : document.rindex("</svg>")]
    inner = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style .*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r'<g id="[^"]*"', "<g", inner)
    inner = inner.replace("xlink:href", "href")
    inner = re.sub(r"font-family: [^;\"]*;? ?", "", inner)
    inner = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", inner)
    inner = re.sub(r"\s*\n\s*", "\n", inner).strip()
    return to_variables(inner)

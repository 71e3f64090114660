"""How every figure looks and is saved: one style, three formats, and the same bytes for the same data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fscil.core.palette import Style
from fscil.core.storage import write_atomic

ImageFormat = Literal["png", "svg", "pdf"]
IMAGE_FORMATS: tuple[ImageFormat, ...] = ("png", "svg", "pdf")
WIDTH = 7.6  # inches, a text width
_LOOK: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.7,
    "svg.hashsalt": "fscil",  # identical files for identical figures
    "pdf.fonttype": 42,  # text stays text
}
_DATES: dict[ImageFormat, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
FINGERPRINT = "fscil-data"  # PNG text field


@contextmanager
def look() -> Iterator[None]:
    with mpl.rc_context(_LOOK):
        yield


def new_figure(
    panels: int, *, height: float = 3.2, ratios: list[float] | None = None, wide: bool = False
) -> tuple[Figure, list[Axes]]:
    """A row of panels. No pyplot: nothing global, nothing shown."""
    width = WIDTH if panels > 1 or wide else WIDTH * 0.6
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, panels, width_ratios=ratios, squeeze=False)
    return figure, list(axes[0])


def line_look(style: Style, yours: bool = False) -> dict[str, Any]:
    """Keyword arguments of `Axes.plot` for a method; a user's line is thicker than the published one of that method."""
    return {
        "linewidth": 2.4 if yours else 1.3,
        "markeredgecolor": "black" if yours else style.colour,
        "color": style.colour,
        "marker": style.marker,
        "markerfacecolor": style.face,
        "markersize": 8.0 if style.marker == "*" else 4.5,  # a star is smaller than it measures
        "linestyle": "-" if not style.dashes else (0, style.dashes),
    }


def save_figure(figure: Figure, stem: Path, formats: tuple[ImageFormat, ...] = IMAGE_FORMATS) -> list[Path]:
    """Write stem.png, stem.svg, stem.pdf; each file is whole or absent."""
    written = []
    for form in formats:
        metadata: dict[str, Any] = dict(_DATES[form])
        if form == "png":
            metadata[FINGERPRINT] = fingerprint(figure)
        path = stem.with_name(f"{stem.name}.{form}")
        with look():
            write_atomic(path, lambda target: figure.savefig(target, format=form, dpi=200, metadata=metadata))  # noqa: B023
        written.append(path)
    return written


def fingerprint(figure: Figure) -> str:
    """A hash of what is drawn, not of pixels: it tells whether a saved picture is up to date on any machine."""
    digest = hashlib.sha256()
    for axes in figure.axes:
        digest.update(f"{axes.get_title(loc='left')}|{axes.get_xlabel()}|{axes.get_ylabel()}".encode())
        for line in axes.get_lines():
            points = np.asarray(line.get_xydata(), dtype=float)
            digest.update(f"{line.get_label()}{np.round(points, 4).tolist()}".encode())
        for patch in axes.patches:
            if isinstance(patch, Rectangle):  # a bar
                digest.update(f"{patch.get_height():.4f}".encode())
        for text in axes.texts:
            digest.update(text.get_text().encode())
    return digest.hexdigest()[:16]

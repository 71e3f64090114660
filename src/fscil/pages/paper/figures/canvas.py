"""Figures as files: three formats, and the same bytes for the same data."""

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fscil.core.storage import write_atomic
from fscil.pages.kit.looks import themed

ImageFormat = Literal["png", "svg", "pdf"]
IMAGE_FORMATS: tuple[ImageFormat, ...] = ("png", "svg", "pdf")
FINGERPRINT = "fscil-data"  # PNG text field
_WIDTH = 7.6  # inches, a text width
_DATES: dict[ImageFormat, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def new_figure(
    panels: int, *, height: float = 3.2, ratios: list[float] | None = None, wide: bool = False
) -> tuple[Figure, list[Axes]]:
    """A row of panels. No pyplot: nothing global, nothing shown."""
    width = _WIDTH if panels > 1 or wide else _WIDTH * 0.6
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, panels, width_ratios=ratios, squeeze=False)
    return figure, list(axes[0])


def save_figure(figure: Figure, stem: Path, formats: tuple[ImageFormat, ...] = IMAGE_FORMATS) -> list[Path]:
    """Write stem.png, stem.svg, stem.pdf; each file is whole or absent."""
    written = []
    for form in formats:
        metadata: dict[str, Any] = dict(_DATES[form])
        if form == "png":
            metadata[FINGERPRINT] = fingerprint(figure)
        path = stem.with_name(f"{stem.name}.{form}")
        with themed("print"):
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

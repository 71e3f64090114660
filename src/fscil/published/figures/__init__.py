"""Figures: those of the paper that its printed numbers allow, and the same from a user's results."""

from __future__ import annotations

from fscil.published.figures.canvas import IMAGE_FORMATS, ImageFormat, fingerprint, save_figure
from fscil.published.figures.registry import FIGURES, Drawing, Request, draw, drawable

__all__ = [
    "FIGURES",
    "IMAGE_FORMATS",
    "Drawing",
    "ImageFormat",
    "Request",
    "draw",
    "drawable",
    "fingerprint",
    "save_figure",
]

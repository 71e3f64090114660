"""Is a picture a photograph? The encoder for drawn characters knows nothing of those."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from fscil.teach.project.pictures import open_checked

CHARACTERS = "glyphs"  # the encoder that was trained on rendered characters alone
_ASKED = 8  # files at most
_SIDE, _LEVELS = 48, 8  # pixels; shades of each colour
_BITS = 3.0  # of entropy: rendered and photographed characters stay below 2.5, coloured photographs mostly above


def looks_like_photograph(image: Image.Image) -> bool:
    """By how many colours it is made of: drawn characters have a ground and an ink, photographs hundreds of shades."""
    if min(image.size) < _SIDE:
        return False  # too small to tell
    small = image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    shades = np.asarray(small, dtype=np.int64) * _LEVELS // 256
    counts = np.bincount((shades @ [_LEVELS**2, _LEVELS, 1]).ravel())
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum()) > _BITS


def warning(encoder: str, files: Sequence[str | Path]) -> str:
    """For a project whose encoder knows characters alone and that is taught photographs; else nothing."""
    if encoder != CHARACTERS:
        return ""
    spaced = files[:: max(1, len(files) // _ASKED)][:_ASKED]
    found = [_shows_one(file) for file in spaced]
    if 2 * sum(found) <= len(found):
        return ""
    return (
        "These look like photographs, and the encoder glyphs knows drawn characters alone; for photographs make a new "
        "project with --encoder photos (pip install 'fscil[photos]') or --encoder cifar100."
    )


def _shows_one(file: str | Path) -> bool:
    try:
        return looks_like_photograph(open_checked(Path(file).read_bytes()))
    except Exception:  # decoders raise nearly anything; of what cannot be read something else is said
        return False

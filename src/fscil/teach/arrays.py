"""Pictures as scikit-learn's users have them: paths, pictures of PIL, arrays of bytes or numbers, in colour or grey."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from PIL import Image

from fscil.core.errors import InputError

Range = tuple[float, float]


class ImageInputError(InputError, ValueError):
    """Also a ValueError, which is what scikit-learn's tools expect of a refused input."""


def is_listed(given: Any) -> bool:
    """Whether it is a sequence of pictures one by one, such as paths or arrays of different sizes."""
    if getattr(given, "ndim", 1) != 1 or (isinstance(given, np.ndarray) and given.dtype.kind not in "OUS"):
        return False
    if isinstance(given, str | bytes | os.PathLike | Image.Image):
        raise ImageInputError("That is a single picture; give a list, [picture].")
    try:
        first = next(iter(given), None)
    except TypeError:
        return False
    if isinstance(first, np.ndarray | list | tuple):
        return np.ndim(first) >= 2 and not isinstance(first, list | tuple)
    return isinstance(first, str | bytes | os.PathLike | Image.Image)


def pictures_of(array: np.ndarray, values: Range | None) -> list[np.ndarray | Image.Image]:
    """Of an array (n, h, w) in grey or (n, h, w, channels) with 1, 3 or 4 channels."""
    if array.ndim == 3 and array.shape[-1] in (3, 4):
        raise ImageInputError(f"An array {array.shape} is a single picture in colour; give several, or array[None].")
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[-1] not in (1, 3, 4)):
        raise ImageInputError(
            f"Images are arrays (n, height, width) or (n, height, width, 1, 3 or 4); got {array.shape}."
        )
    return [_picture(each) for each in as_bytes(array, values)]


def picture_of(one: Any, values: Range | None) -> Any:
    """One of a list: an array (h, w) or (h, w, channels), or what can be opened as it is."""
    if not isinstance(one, np.ndarray):
        return os.fspath(one) if isinstance(one, np.str_) else one
    if one.ndim not in (2, 3) or (one.ndim == 3 and one.shape[-1] not in (1, 3, 4)):
        raise ImageInputError(f"An image is an array (height, width) or (height, width, 1, 3 or 4); got {one.shape}.")
    return _picture(as_bytes(one, values))


def square_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of numbers as square pictures in grey, as `sklearn.datasets` gives digits and faces."""
    side = math.isqrt(rows.shape[1])
    if side * side != rows.shape[1]:
        raise ImageInputError(
            f"Rows of {rows.shape[1]} numbers are no square pictures; give images as (n, height, width) or paths."
        )
    return rows.reshape(-1, side, side, 1)


def as_bytes(array: np.ndarray, values: Range | None) -> np.ndarray:
    """uint8. `values`: what black and white are; None: 0 and 255 in whole numbers, 0 and 1 in others."""
    kind = array.dtype.kind
    if kind not in "buif":
        raise ImageInputError(f"Images hold numbers; got {array.dtype}.")
    if array.size == 0:
        raise ImageInputError(f"There are no images, or they have no pixels: {array.shape}.")
    if array.dtype == np.uint8 and values is None:
        return array
    low, high = values or ((0, 1) if kind in "bf" else (0, 255))
    if not low < high:
        raise ImageInputError(f"value_range is (black, white), the smaller number first; got {values}.")
    found = float(array.min()), float(array.max())
    if not np.isfinite(found).all():
        raise ImageInputError("The images contain NaN or infinity; replace those pixels.")
    if found[0] < low or found[1] > high:
        raise ImageInputError(
            f"These images hold values from {found[0]:g} to {found[1]:g}, and {low:g} to {high:g} are expected; say "
            f"what black and white are, such as value_range=({min(found[0], 0):g}, {found[1]:g})."
        )
    return np.rint((array.astype(np.float64) - low) * (255 / (high - low))).astype(np.uint8)


def _picture(array: np.ndarray) -> np.ndarray | Image.Image:
    """An array (h, w, 3), or a picture of PIL where there is something to see through."""
    if array.ndim == 2:
        array = array[..., None]
    return Image.fromarray(array, "RGBA") if array.shape[-1] == 4 else np.broadcast_to(array, (*array.shape[:2], 3))

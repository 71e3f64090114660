"""Pictures from anywhere, decoded with care: the format is what the content says, limits hold before decoding.

A picture is a path, bytes, a PIL image or a uint8 array (h, w, 3). It becomes an upright RGB square on white: the
centre square of the picture, scaled to the encoder's size, as the networks were trained.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from fscil.core.errors import InputError
from fscil.teach.limits import MAX_FILE_BYTES, MAX_PIXELS

# Only these decoders see a file: some of Pillow's others start programs.
MEDIA = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
    "GIF": "image/gif",
    "TIFF": "image/tiff",
}
SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/tiff": ".tif",
}

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Image.Image | np.ndarray


class PictureError(Exception):
    """One picture cannot be used; the sentence is shown beside its name, the others go on."""


@dataclass(frozen=True)
class Picture:
    file: str  # the name given, for messages
    id: str  # sha256 of the content
    content: bytes | Path  # of a file only where it is: many photographs do not fit into memory together
    media: str
    pixels: np.ndarray  # (size, size, 3) uint8

    def read_again(self) -> bytes:
        """The content, for storing it."""
        if isinstance(self.content, bytes):
            return self.content
        content = _file(self.content)
        if hashlib.sha256(content).hexdigest() != self.id:
            raise PictureError("changed while it was being learned")
        return content


@dataclass(frozen=True)
class Refused:
    file: str
    reason: str


def read_all(sources: Iterable[Source], size: int, *, keep: bool, first: int = 0) -> list[Picture | Refused]:
    """Decode in a few threads (decoders let go of the interpreter), in the order given.

    `keep`: with content and hash, for learning; without, arrays need not be packed into a file first. `first`: number
    of the first one, for naming those that have no name.
    """
    given = listed(sources)

    def one(numbered: tuple[int, Source]) -> Picture | Refused:
        number, source = numbered
        name = name_of(source, number)
        try:
            return read(source, name, size) if keep else Picture(name, "", b"", "", _pixels(source, size))
        except PictureError as error:
            return Refused(name, str(error))

    if len(given) < 8:
        return [one(pair) for pair in enumerate(given, first)]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, enumerate(given, first)))


def read(source: Source, name: str, size: int) -> Picture:
    content = _content(source)
    image, media = open_checked(content)
    kept = Path(source) if isinstance(source, str | os.PathLike) else content
    return Picture(name, hashlib.sha256(content).hexdigest(), kept, media, _square(image, size))


def name_of(source: Source, number: int) -> str:
    """A path as it was given, but never with characters that break a line or cannot be encoded."""
    if isinstance(source, str | os.PathLike):
        text = os.fsencode(source).decode("utf-8", "replace")
        return "".join(c if c.isprintable() else "\ufffd" for c in text)
    return f"image {number + 1}"


def open_checked(content: bytes) -> tuple[Image.Image, str]:
    """An image whose header passed the limits, not yet decoded, and its media type."""
    if len(content) > MAX_FILE_BYTES:
        raise PictureError(f"larger than {MAX_FILE_BYTES // 1_000_000} MB; scale it down")
    if not content:
        raise PictureError("empty file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large sizes and odd metadata are dealt with here
            image = Image.open(io.BytesIO(content), formats=list(MEDIA))
    except Image.DecompressionBombError:
        raise PictureError(_too_many()) from None
    except Image.UnidentifiedImageError:
        raise PictureError("not a PNG, JPEG, WEBP, BMP, GIF or TIFF picture") from None
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        raise PictureError(f"damaged ({_short(error)})") from None
    _check_size(image)
    return image, MEDIA[str(image.format)]


def _content(source: Source) -> bytes:
    if isinstance(source, str | os.PathLike):
        return _file(Path(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    image = _from_array(source) if isinstance(source, np.ndarray) else source
    _check_size(image)
    packed = io.BytesIO()
    try:
        _rgb(image).save(packed, "PNG")
    except Exception as error:
        raise PictureError(f"cannot be read ({_short(error)})") from None
    return packed.getvalue()


def upright(content: bytes) -> np.ndarray:
    """The whole picture (h, w, 3), as it is looked at."""
    return np.asarray(_rgb(open_checked(content)[0]))


def _pixels(source: Source, size: int) -> np.ndarray:
    if isinstance(source, np.ndarray | Image.Image):
        image = _from_array(source) if isinstance(source, np.ndarray) else source
        _check_size(image)
        return _square(image, size)
    return _square(open_checked(_content(source))[0], size)


def _file(path: Path) -> bytes:
    try:
        if not path.is_file():  # also devices and pipes, which could never end
            raise PictureError("there is no such file" if not path.exists() else "not a file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise PictureError(f"larger than {MAX_FILE_BYTES // 1_000_000} MB; scale it down")
        return path.read_bytes()
    except PermissionError:
        raise PictureError("no permission to read it") from None
    except (OSError, ValueError) as error:
        raise PictureError(f"cannot be read ({_short(error)})") from None


def _square(image: Image.Image, size: int) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image.draft(None, (4 * size, 4 * size))  # a large JPEG is decoded at a fraction of its size
            whole = _rgb(image)
            side = min(whole.size)
            # Whole pixels, so that an exported model can cut the same square.
            left, top = (whole.width - side) // 2, (whole.height - side) // 2
            box = (left, top, left + side, top + side)
            return np.asarray(whole.resize((size, size), Image.Resampling.BICUBIC, box))
    except Exception as error:  # as above
        raise PictureError(f"damaged ({_short(error)})") from None


def _from_array(array: np.ndarray) -> Image.Image:
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise PictureError(f"an array must be uint8 (height, width, 3); got {array.dtype} {array.shape}")
    if array.shape[0] * array.shape[1] > MAX_PIXELS:
        raise PictureError(_too_many())
    return Image.fromarray(np.ascontiguousarray(array))


def _check_size(image: Image.Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise PictureError(_too_many())
    if not image.width or not image.height:
        raise PictureError("has no pixels")


def _rgb(image: Image.Image) -> Image.Image:
    from fscil.data.folder import to_rgb  # imports torch, which takes seconds; listing a project does not need it

    return to_rgb(ImageOps.exif_transpose(image))


def _too_many() -> str:
    return f"more than {MAX_PIXELS // 1_000_000} million pixels; scale it down"


def _short(error: BaseException) -> str:
    """The first line of what a decoder says, without addresses of objects."""
    text = (str(error) or type(error).__name__).splitlines()[0]
    return text.split(" <_io")[0][:80]


def listed(sources: Any) -> list[Source]:
    """The pictures; where one was given in place of a list, say so instead of reading it letter by letter."""
    if isinstance(sources, str | bytes | bytearray | memoryview | os.PathLike | Image.Image):
        raise InputError("Give a list of pictures, also for one: [picture].")
    if isinstance(sources, np.ndarray) and sources.ndim == 3:
        raise InputError("Give a list of pictures, also for one: [picture].")
    given = list(sources)
    for source in given:
        if not isinstance(source, str | os.PathLike | bytes | bytearray | memoryview | Image.Image | np.ndarray):
            raise InputError(
                f"A picture is a path, bytes, a PIL image or a uint8 array (h, w, 3); got {type(source).__name__}."
            )
    return given

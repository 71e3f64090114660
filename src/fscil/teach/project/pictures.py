"""Pictures as users give them: paths, bytes, PIL images or uint8 arrays (h, w, 3); `fscil.data.images` decodes them."""

import hashlib
import io
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fscil.core.errors import InputError
from fscil.data.images import (
    ImageError,
    check_scans,
    check_size,
    damaged,
    from_array,
    media_type,
    open_image,
    square,
    upright,
)
from fscil.teach.project.limits import MAX_FILE_BYTES, MAX_PIXELS
from fscil.teach.project.records import Skipped

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Image.Image | np.ndarray


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
            raise ImageError("changed while it was being learned")
        return content


def read_all(sources: Iterable[Any], size: int, *, keep: bool, first: int = 0) -> list[Picture | Skipped]:
    """Decode in a few threads (decoders release the interpreter lock), in the order given. What was read already stays.

    `keep`: with content and hash, for learning; without, arrays need not be packed into a file first. `first`: number
    of the first one, for naming those that have no name.
    """
    given = listed(sources)

    def one(numbered: tuple[int, Source | Picture | Skipped]) -> Picture | Skipped:
        number, source = numbered
        if isinstance(source, Picture | Skipped):
            return source
        name = name_of(source, number)
        try:
            return read(source, name, size) if keep else Picture(name, "", b"", "", _pixels(source, size))
        except ImageError as error:
            return Skipped(name, str(error))

    if len(given) < 8:
        return [one(pair) for pair in enumerate(given, first)]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, enumerate(given, first)))


def read(source: Source, name: str, size: int) -> Picture:
    content = _content(source)
    image = open_checked(content)
    kept = Path(source) if isinstance(source, str | os.PathLike) else content
    return Picture(name, hashlib.sha256(content).hexdigest(), kept, media_type(image), square(image, size))


def name_of(source: Source, number: int) -> str:
    """A path as it was given, but never with characters that break a line or cannot be encoded."""
    if isinstance(source, str | os.PathLike):
        text = os.fsencode(source).decode("utf-8", "replace")
        return "".join(c if c.isprintable() else "\ufffd" for c in text)
    return f"image {number + 1}"


def open_checked(content: bytes) -> Image.Image:
    """An image within a project's limits, not decoded yet."""
    if len(content) > MAX_FILE_BYTES:
        raise _too_large()
    if not content:
        raise ImageError("empty file")
    check_scans(content)
    return open_image(content, MAX_PIXELS)


def listed(sources: Any) -> list[Any]:
    """The pictures; where one was given in place of a list, say so instead of reading it letter by letter."""
    if isinstance(sources, str | bytes | bytearray | memoryview | os.PathLike | Image.Image):
        raise InputError("Give a list of pictures, also for one: [picture].")
    if isinstance(sources, np.ndarray) and sources.ndim == 3:
        raise InputError("Give a list of pictures, also for one: [picture].")
    given = list(sources)
    for source in given:
        kinds = str | os.PathLike | bytes | bytearray | memoryview | Image.Image | np.ndarray | Picture | Skipped
        if not isinstance(source, kinds):
            raise InputError(
                f"A picture is a path, bytes, a PIL image or a uint8 array (h, w, 3); got {type(source).__name__}."
            )
    return given


def _pixels(source: Source, size: int) -> np.ndarray:
    if isinstance(source, np.ndarray | Image.Image):
        return square(_image(source), size)
    return square(open_checked(_content(source)), size)


def _content(source: Source) -> bytes:
    if isinstance(source, str | os.PathLike):
        return _file(Path(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    image, packed = _image(source), io.BytesIO()
    try:
        upright(image).save(packed, "PNG")
    except ImageError:
        raise
    except Exception as error:  # such as a file that was opened and is cut off
        raise damaged(error) from None
    return packed.getvalue()


def _image(source: Image.Image | np.ndarray) -> Image.Image:
    if isinstance(source, np.ndarray):
        return from_array(source, MAX_PIXELS)
    check_size(source, MAX_PIXELS)
    return source


def _file(path: Path) -> bytes:
    try:
        if not path.is_file():  # also devices and pipes, which could never end
            raise ImageError("there is no such file" if not path.exists() else "not a file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _too_large()
        return path.read_bytes()
    except PermissionError:
        raise ImageError("no permission to read it") from None
    except (OSError, ValueError) as error:
        raise ImageError(f"cannot be read ({str(error).splitlines()[0][:80]})") from None


def _too_large() -> ImageError:
    return ImageError(f"larger than {MAX_FILE_BYTES // 1_000_000} MB, scale it down")

"""Images that come in and thumbnails that go out."""

import io
import re
from dataclasses import replace
from typing import Annotated, Any

from fastapi import File, UploadFile
from PIL import Image

from fscil.core.errors import InputError
from fscil.data.images import ImageError, upright
from fscil.teach.project.limits import MAX_FILE_BYTES
from fscil.teach.project.pictures import Picture, open_checked
from fscil.teach.project.records import Learned, Skipped
from fscil.web.guard import MEGABYTE

MAX_IMAGES = 64  # in one request
MAX_FILE_NAME = 120  # characters that are kept of a picture's name
THUMBNAIL = 160  # pixels of the longer side: sharp at 80 on a fine screen
Uploads = Annotated[list[UploadFile], File(min_length=1, max_length=MAX_IMAGES)]


class NothingLearnedError(InputError):
    """Not one picture of a lesson could be used."""

    def __init__(self, learned: Learned) -> None:
        self.skipped = learned.skipped
        first = f"{learned.skipped[0].file}: {learned.skipped[0].reason}" if learned.skipped else "no images came"
        super().__init__(f"Nothing was learned: {first}.")


async def read_images(files: list[UploadFile]) -> list[bytes]:
    """The contents of uploaded files, whose sizes are checked before they are read."""
    for number, file in enumerate(files, 1):
        if not file.size:
            raise InputError(f"Image {number} is empty; choose another file.")
        if file.size > MAX_FILE_BYTES:
            raise InputError(f"Image {number} is larger than {MAX_FILE_BYTES // MEGABYTE} MB; choose a smaller one.")
    return [await file.read() for file in files]


async def read_lesson(files: list[UploadFile]) -> list[bytes | Skipped]:
    """The same of pictures to learn from, where a bad one must not stop the others."""
    return [await _content(file, name) for file, name in zip(files, given_names(files), strict=True)]


async def _content(file: UploadFile, name: str) -> bytes | Skipped:
    if not file.size:
        return Skipped(name, "empty file")
    if file.size > MAX_FILE_BYTES:
        return Skipped(name, f"larger than {MAX_FILE_BYTES // MEGABYTE} MB, scale it down")
    return await file.read()


def given_names(files: list[UploadFile]) -> list[str]:
    """What the pictures are called: the last part of their paths, without what cannot be shown."""
    names = [re.split(r"[/\\]", file.filename or "")[-1] for file in files]
    shown = ["".join(c if c.isprintable() else "\ufffd" for c in name)[:MAX_FILE_NAME] for name in names]
    return [name or f"image {number}" for number, name in enumerate(shown, 1)]


def called(items: list[Any], names: list[str]) -> list[Any]:
    """Pictures, and those that cannot be read, with the names that they were given by."""
    return [
        replace(item, file=name) if isinstance(item, Picture | Skipped) else item
        for item, name in zip(items, names, strict=True)
    ]


def thumbnail(content: bytes) -> bytes | None:
    """A small PNG made anew from the pixels: nothing else a file may carry reaches the browser. None: not an image."""
    try:
        image = open_checked(content)
        image.draft("RGB", (2 * THUMBNAIL, 2 * THUMBNAIL))  # large JPEGs are read at a fraction of their size
        small = upright(image)
        small.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    except (ImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    stream = io.BytesIO()
    small.save(stream, "PNG")
    return stream.getvalue()

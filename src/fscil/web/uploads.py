"""Images that come in and thumbnails that go out."""

import io
from typing import Annotated

from fastapi import File, UploadFile
from PIL import Image

from fscil.core.errors import InputError
from fscil.data.images import ImageError, upright
from fscil.teach.project.limits import MAX_FILE_BYTES
from fscil.teach.project.pictures import open_checked
from fscil.web.guard import MEGABYTE

MAX_IMAGES = 64  # in one request
THUMBNAIL = 160  # pixels of the longer side: sharp at 80 on a fine screen
Uploads = Annotated[list[UploadFile], File(min_length=1, max_length=MAX_IMAGES)]


async def read_images(files: list[UploadFile]) -> list[bytes]:
    """The contents of uploaded files, whose sizes are checked before they are read."""
    for number, file in enumerate(files, 1):
        if not file.size:
            raise InputError(f"Image {number} is empty; choose another file.")
        if file.size > MAX_FILE_BYTES:
            raise InputError(f"Image {number} is larger than {MAX_FILE_BYTES // MEGABYTE} MB; choose a smaller one.")
    return [await file.read() for file in files]


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

"""The one decoder of image files: for data sets, for projects of `fscil teach` and for the page.

The format is what the content says, and limits hold before anything is decoded. An image becomes an upright RGB square
on white: its centre square, scaled to a network's size. Nothing here imports torch, which takes seconds.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

# Pillow's name of a format: media type and suffixes. No other decoder sees a file: some of Pillow's start programs.
FORMATS = {
    "PNG": ("image/png", (".png",)),
    "JPEG": ("image/jpeg", (".jpg", ".jpeg", ".jpe", ".jfif")),
    "WEBP": ("image/webp", (".webp",)),
    "BMP": ("image/bmp", (".bmp",)),
    "GIF": ("image/gif", (".gif",)),
    "TIFF": ("image/tiff", (".tif", ".tiff")),
    "PPM": ("image/x-portable-anymap", (".ppm", ".pgm", ".pbm")),
}
HEIC = ("image/heic", (".heic", ".heif"))  # photographs of telephones; Pillow reads them with a package besides
SUFFIXES = tuple(suffix for _, suffixes in (*FORMATS.values(), HEIC) for suffix in suffixes)
SUFFIX_OF = {media: suffixes[0] for media, suffixes in (*FORMATS.values(), HEIC)}
MAX_SCANS = 100
_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")  # that something with a length stands behind, or the end


class ImageError(Exception):
    """One image cannot be used. The phrase says why and is shown beside its name."""


def open_image(source: bytes | Path, max_pixels: int) -> Image.Image:
    """An image whose header passed the limits; its pixels are not decoded yet."""
    formats = tuple(FORMATS)
    try:
        if _is_heic(source):
            formats = ("HEIF",)
        with _quiet():
            image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats)
    except Image.DecompressionBombError:
        raise too_many(max_pixels) from None
    except Image.UnidentifiedImageError:
        if formats == ("HEIF",):
            raise ImageError("a damaged HEIC photograph; save it as JPEG") from None
        *most, last = FORMATS
        raise ImageError(f"not a {', '.join(most)} or {last} image") from None
    except ImageError:
        raise
    except PermissionError:
        raise ImageError("no permission to read it") from None
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        raise damaged(error) from None
    check_size(image, max_pixels)
    return image


def _is_heic(source: bytes | Path) -> bool:
    """Whether it is a photograph in HEIC, which can be read here; one that cannot be read is refused by its name."""
    head = source[:12] if isinstance(source, bytes) else _first(source, 12)
    if head[4:8] != b"ftyp":
        return False
    if head[8:12] in (b"avif", b"avis"):
        raise ImageError("an AVIF image, save it as JPEG or PNG")
    if head[8:12] not in (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"):
        return False
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise ImageError(
            "a HEIC photograph; save it as JPEG, or let it be read with: pip install 'fscil[heic]'"
        ) from None
    register_heif_opener(thumbnails=False)
    return True


def _first(path: Path, count: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(count)


def check_scans(content: bytes) -> None:
    """Each scan of a progressive JPEG goes through the whole picture, and twenty bytes are one: 200 kB took 22 s. What
    programs write has a dozen.
    """
    if content[:2] != b"\xff\xd8" or content.count(b"\xff\xda") <= MAX_SCANS:
        return  # else perhaps by chance, in what stands beside the picture
    scans, at = 0, 2
    while found := _MARKER.search(content, at):
        scans += found[1] == b"\xda"
        if scans > MAX_SCANS:
            raise ImageError(f"has more than {MAX_SCANS} scans, save it anew")
        if found[1] == b"\xd9":  # the end of the picture
            return
        at = found.end() + max(2, int.from_bytes(content[found.end() : found.end() + 2]))


def media_type(image: Image.Image) -> str:
    return (HEIC if image.format == "HEIF" else FORMATS[str(image.format)])[0]


def check_size(image: Image.Image, max_pixels: int) -> None:
    if image.width * image.height > max_pixels:
        raise too_many(max_pixels)
    if not image.width or not image.height:
        raise ImageError("has no pixels")


def from_array(array: np.ndarray, max_pixels: int) -> Image.Image:
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ImageError(f"an array must be uint8 (height, width, 3); got {array.dtype} {array.shape}")
    if array.shape[0] * array.shape[1] > max_pixels:
        raise too_many(max_pixels)
    return Image.fromarray(np.ascontiguousarray(array))


def square(image: Image.Image, size: int) -> np.ndarray:
    """The centre square as (size, size, 3) uint8, cut at whole pixels so that an exported model can cut the same."""
    try:
        with _quiet():
            image.draft(None, (4 * size, 4 * size))  # a large JPEG is decoded at a fraction of its size
            whole = upright(image)
            side = min(whole.size)
            left, top = (whole.width - side) // 2, (whole.height - side) // 2
            box = (left, top, left + side, top + side)
            return np.asarray(whole.resize((size, size), Image.Resampling.BICUBIC, box))
    except ImageError:
        raise
    except Exception as error:
        raise damaged(error) from None


def upright(image: Image.Image) -> Image.Image:
    """The whole image in RGB, turned as its EXIF data says, transparent parts on white."""
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        return _from_integers(image)
    if image.mode == "F":
        raise ImageError("its pixels are floating-point numbers, save it with 8 bits")
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _from_integers(image: Image.Image) -> Image.Image:
    """16-bit grey, which Pillow would cut off at 255 instead of scaling it. By a table: arithmetic on 40 million pixels
    would take seconds and a gigabyte.
    """
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ImageError("its pixels have more than 16 bits, save it with 8 bits")
    return Image.fromarray(_EIGHT_BITS[values]).convert("RGB")


_EIGHT_BITS = ((np.arange(65536) + 128) // 257).astype(np.uint8)


def too_many(max_pixels: int) -> ImageError:
    return ImageError(f"more than {max_pixels // 1_000_000} million pixels, scale it down")


def damaged(error: BaseException) -> ImageError:
    """With the first line of what a decoder says, without addresses of objects."""
    text = (str(error) or type(error).__name__).splitlines()[0]
    return ImageError(f"damaged ({text.split(' <_io')[0][:80]})")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Pillow warns of large images and odd metadata, which are dealt with here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

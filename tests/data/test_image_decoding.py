"""Single image files: every mode comes out as the colours a person sees, every broken one by name."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_samples import refusal
from PIL import Image

from fscil.data import decoded
from fscil.data.decoded import decode
from fscil.teach.project.pictures import read


def centre(path: Path) -> list[int]:
    image = decode(path, 8)
    assert image.shape == (8, 8, 3)
    assert image.dtype == np.uint8
    return image[4, 4].tolist()


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize(
    ("mode", "colour", "suffix", "seen"),
    [
        ("RGB", (10, 200, 30), "png", (10, 200, 30)),
        ("RGB", (10, 200, 30), "bmp", (10, 200, 30)),
        ("RGB", (10, 200, 30), "ppm", (10, 200, 30)),
        ("RGB", (10, 200, 30), "tif", (10, 200, 30)),
        ("L", 77, "png", (77, 77, 77)),
        ("L", 77, "pgm", (77, 77, 77)),
        ("1", 1, "png", (255, 255, 255)),
        ("LA", (0, 0), "png", (255, 255, 255)),
        ("LA", (0, 255), "png", (0, 0, 0)),
        ("RGBA", (255, 0, 0, 255), "png", (255, 0, 0)),
        ("RGBA", (0, 0, 0, 0), "png", (255, 255, 255)),
        ("RGBA", (0, 0, 0, 51), "png", (204, 204, 204)),
        ("RGBA", (255, 0, 0, 255), "tiff", (255, 0, 0)),
        ("I;16", 65535, "png", (255, 255, 255)),
        ("I;16", 257 * 40, "png", (40, 40, 40)),
        ("I;16", 257 * 40, "tif", (40, 40, 40)),
        ("I", 257 * 40, "tif", (40, 40, 40)),
        ("CMYK", (0, 255, 255, 0), "tif", (255, 0, 0)),
    ],
)
def test_modes(
    tmp_path: Path, mode: str, colour: int | tuple[int, ...], suffix: str, seen: tuple[int, int, int]
) -> None:
    assert centre(saved(tmp_path / f"a.{suffix}", Image.new(mode, (9, 9), colour))) == list(seen)


def test_lossy_formats(tmp_path: Path) -> None:
    for suffix, mode in (("jpg", "RGB"), ("JPEG", "L"), ("jpg", "CMYK"), ("webp", "RGB")):
        image = Image.new("RGB", (9, 9), (60, 60, 60)).convert(mode)
        assert np.allclose(centre(saved(tmp_path / f"a.{suffix}", image)), 60, atol=3)


def test_palettes(tmp_path: Path) -> None:
    image = Image.new("P", (9, 9), 1)
    image.putpalette([0, 0, 0, 20, 40, 60])
    assert centre(saved(tmp_path / "a.png", image)) == [20, 40, 60]
    assert centre(saved(tmp_path / "a.gif", image)) == [20, 40, 60]
    assert centre(saved(tmp_path / "b.png", image, transparency=1)) == [255, 255, 255]
    assert centre(saved(tmp_path / "b.gif", image, transparency=1)) == [255, 255, 255]


def test_a_transparent_colour_without_alpha_channel(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", Image.new("RGB", (9, 9), (1, 2, 3)), transparency=(1, 2, 3))
    assert centre(path) == [255, 255, 255]


def test_a_16_bit_colour_png(tmp_path: Path) -> None:
    """Written by hand, as Pillow writes none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + struct.pack(">3H", 257 * 10, 257 * 200, 257 * 30) * 9 for _ in range(9))
    header = struct.pack(">IIBBBBB", 9, 9, 16, 2, 0, 0, 0)
    path = tmp_path / "a.png"
    parts = (b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    path.write_bytes(b"".join(parts))
    assert centre(path) == [10, 200, 30]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path: Path, orientation: int) -> None:
    """A picture with one dark corner, stored turned: it must come out upright."""
    upright = Image.new("RGB", (16, 16), "white")
    upright.paste("black", (0, 0, 4, 4))
    stored = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,  # shown after a turn by 90 degrees clockwise
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", upright if stored is None else upright.transpose(stored), exif=exif)
    assert np.array_equal(decode(path, 16), np.asarray(upright))


@pytest.mark.parametrize("size", [(30, 10), (10, 30)])
def test_short_side_then_centre_crop(tmp_path: Path, size: tuple[int, int]) -> None:
    """The middle third is red; it alone is kept."""
    image = Image.new("RGB", size, "blue")
    image.paste("red", (10, 0, 20, 10) if size[0] > size[1] else (0, 10, 10, 20))
    assert (decode(saved(tmp_path / "a.png", image), 10) == (255, 0, 0)).all()


@pytest.mark.parametrize("size", [(31, 20), (20, 31), (33, 33), (90, 47)])
def test_data_sets_and_projects_cut_the_same_square(tmp_path: Path, size: tuple[int, int]) -> None:
    """At whole pixels, also where there is one more on one side."""
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    path = saved(tmp_path / "a.png", Image.fromarray(noise))
    side, (height, width) = min(size), size
    top, left = (height - side) // 2, (width - side) // 2
    assert np.array_equal(decode(path, side), noise[top : top + side, left : left + side])
    assert np.array_equal(decode(path, 8), read(path, "a", 8).pixels)


def test_shrinking_averages(tmp_path: Path) -> None:
    """No aliasing: a fine chequerboard becomes even grey, in a JPEG decoded at a fraction of its size too."""
    board = np.indices((512, 512)).sum(0) % 2 * 255
    image = Image.fromarray(board.astype(np.uint8))
    for suffix in ("png", "jpg"):
        small = decode(saved(tmp_path / f"a.{suffix}", image), 8)
        assert np.abs(small.astype(int) - 127).max() <= 3


def test_the_first_frame_of_an_animation(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    path = saved(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:])
    assert centre(path) == [255, 0, 0]


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "bmp", "webp", "tif", "ppm"])
def test_truncated_files(tmp_path: Path, suffix: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    path = saved(tmp_path / f"a.{suffix}", Image.fromarray(noise))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refusal(lambda: decode(path, 8), path, "damaged", "replace or remove")


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a"])
def test_files_that_are_no_images(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    refusal(lambda: decode(path, 8), path, "not a usable image")


def test_only_the_listed_decoders_see_a_file(tmp_path: Path) -> None:
    """Postscript would be handed to another program."""
    saved(tmp_path / "a.eps", Image.new("RGB", (9, 9)))
    path = (tmp_path / "a.eps").rename(tmp_path / "a.png")
    refusal(lambda: decode(path, 8), path, "not a PNG")


def test_numbers_that_are_no_colours(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.tif", Image.new("F", (9, 9), 0.5))
    refusal(lambda: decode(path, 8), path, "floating-point", "8 bits")
    path = saved(tmp_path / "b.tif", Image.new("I", (9, 9), 70000))
    refusal(lambda: decode(path, 8), path, "more than 16 bits")


def test_a_decompression_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that says it is 14,000 x 14,000 pixels; and one over our own limit alone."""
    path = saved(tmp_path / "a.png", Image.new("1", (14_000, 14_000)))
    assert path.stat().st_size < 100_000
    refusal(lambda: decode(path, 8), path, "178 million pixels", "scale it down")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    refusal(lambda: decode(path, 8), path, "178 million pixels")
    assert decoded.MAX_PIXELS < 14_000**2


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.png").write_bytes(b"")
    monkeypatch.setattr(Image, "open", refuse)
    refusal(lambda: decode(tmp_path / "a.png", 8), tmp_path / "a.png", "no permission")

"""Single pictures: what is accepted comes out upright on white; what is not is refused before it is decoded."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from teach_samples import encoded, noise

from fscil.data.images import FORMATS, ImageError, open_image
from fscil.teach import Skipped
from fscil.teach.project.limits import MAX_FILE_BYTES, MAX_PIXELS
from fscil.teach.project.pictures import Picture, read, read_all


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def refusal(content: bytes) -> str:
    with pytest.raises(ImageError) as caught:
        read(content, "x", 16)
    return str(caught.value)


@pytest.mark.parametrize("kind", list(FORMATS))
def test_the_format_is_what_the_content_says(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_bytes(saved(Image.new("RGB", (20, 20), (200, 60, 60)), kind))
    picture = read(path, "x", 16)
    assert picture.media == FORMATS[kind][0]
    assert np.allclose(picture.pixels[8, 8], (200, 60, 60), atol=6)
    assert picture.pixels.shape == (16, 16, 3)
    assert picture.read_again() == path.read_bytes()


def test_transparent_is_white_and_turned_is_upright() -> None:
    assert (read(saved(Image.new("RGBA", (9, 9), (0, 0, 0, 0))), "x", 8).pixels == 255).all()
    upright = Image.new("RGB", (16, 16), "white")
    upright.paste("black", (0, 0, 4, 4))
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = saved(upright.transpose(Image.Transpose.ROTATE_90), "PNG", exif=exif)
    assert (read(turned, "x", 16).pixels == np.asarray(upright)).all()
    reopened = Image.open(io.BytesIO(turned))
    assert (read(reopened, "x", 16).pixels == np.asarray(upright)).all()


def test_the_first_frame_and_the_centre_square() -> None:
    frames = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    assert read(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]), "x", 8).pixels[4, 4].tolist() == [
        255,
        0,
        0,
    ]
    wide = Image.new("RGB", (30, 10), "blue")
    wide.paste("red", (10, 0, 20, 10))
    assert (read(saved(wide), "x", 10).pixels == (255, 0, 0)).all()


def test_too_many_bytes_or_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("a refused picture was decoded"))
    assert "20 MB" in refusal(b"\x89PNG" + bytes(MAX_FILE_BYTES))
    big = tmp_path / "big.png"
    with big.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    monkeypatch.setattr(Path, "read_bytes", lambda *_: pytest.fail("a file too large was read"))
    with pytest.raises(ImageError, match="20 MB"):
        read(big, "x", 16)


@pytest.mark.parametrize("side", [7100, 20_000, 60_000])
def test_decompression_bombs(side: int) -> None:
    """A PNG of a few hundred bytes that says it is huge: only its header is real."""
    assert side * side > MAX_PIXELS

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(10_000)))
        + chunk(b"IEND", b"")
    )
    assert "million pixels" in refusal(bomb)


def test_a_jpeg_of_endless_scans() -> None:
    progressive = saved(Image.new("RGB", (64, 64)), "JPEG", progressive=True)
    scan = progressive[progressive.rindex(b"\xff\xda") : -2]
    assert "scans" in refusal(progressive[:-2] + 200 * scan + b"\xff\xd9")
    hidden = b"\xff\x01\xff\xff"  # to whoever takes the one without a length for one with it
    assert "scans" in refusal(progressive[:-2] + 200 * (hidden + scan) + b"\xff\xd9")
    beside = b"\xff\xe1\x01\x92" + 200 * b"\xff\xda"  # no scans: data of a camera, and what stands behind the end
    assert read(progressive[:2] + beside + progressive[2:] + 200 * scan, "x", 16).media == "image/jpeg"


@pytest.mark.parametrize("kind", list(FORMATS))
def test_truncated_and_damaged_files(kind: str) -> None:
    whole = encoded(noise(1, side=64)[0], kind)
    assert "damaged" in refusal(whole[: len(whole) // 2]) or "not a PNG" in refusal(whole[: len(whole) // 2])
    for start in (4, len(whole) // 3):  # damaged in the middle: decoded somehow or refused, never another error
        broken = whole[:start] + bytes(40) + whole[start + 40 :]
        assert isinstance(read_all([broken], 16, keep=True)[0], Picture | Skipped)


def test_what_telephones_write_is_named(tmp_path: Path) -> None:
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(200)
    assert "HEIC" in refusal(heic)
    (tmp_path / "IMG_0001.HEIC").write_bytes(heic)
    with pytest.raises(ImageError, match="save it as JPEG"):
        open_image(tmp_path / "IMG_0001.HEIC", MAX_PIXELS)
    assert "HEIC" not in refusal(b"\0\0\0\x18ftypisom" + bytes(200))


@pytest.mark.parametrize("content", [b"", b"text", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"%!PS-Adobe"])
def test_what_is_no_picture(content: bytes) -> None:
    assert refusal(content)


def test_other_decoders_are_not_asked() -> None:
    assert "not a PNG" in refusal(saved(Image.new("RGB", (9, 9)), "EPS"))
    assert "not a PNG" in refusal(saved(Image.new("RGB", (9, 9)), "TGA"))


HEIF = "pillow_heif"


def test_photographs_of_telephones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read where the package for them is installed, named where it is not."""
    pytest.importorskip(HEIF).register_heif_opener()
    photograph = saved(Image.new("RGB", (64, 48), (200, 60, 60)), "HEIF")
    picture = read(photograph, "x", 16)
    assert picture.media == "image/heic"
    assert np.allclose(picture.pixels[8, 8], (200, 60, 60), atol=6)
    assert isinstance(read_all([photograph[:200]], 16, keep=True)[0], Skipped)
    monkeypatch.setitem(sys.modules, HEIF, None)
    assert "a HEIC photograph; save it as JPEG" in refusal(photograph)
    assert "an AVIF image" in refusal(photograph[:8] + b"avif" + photograph[12:])


def test_arrays() -> None:
    for bad in (
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 3)),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ):
        (item,) = read_all([bad], 8, keep=False)
        assert isinstance(item, Skipped)
        assert "uint8 (height, width, 3)" in item.reason


def test_files_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    found = read_all([tmp_path / "pipe", tmp_path, tmp_path / "absent", "nul\0byte"], 8, keep=True)
    assert [item.reason for item in found[:3]] == ["not a file", "not a file", "there is no such file"]
    assert isinstance(found[3], Skipped)


def test_names_of_files_are_shown_safely(tmp_path: Path) -> None:
    (item,) = read_all([tmp_path / "a\nb\x1b[31m.png"], 8, keep=False)
    assert "\n" not in item.file
    assert "\x1b" not in item.file


def test_many_are_read_in_order() -> None:
    images = noise(30)
    found = read_all([encoded(image) for image in images], 32, keep=True)
    assert all((item.pixels == image).all() for item, image in zip(found, images, strict=True))

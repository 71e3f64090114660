"""Pictures: plain ones to teach with, and hostile ones."""

from __future__ import annotations

import io
import resource
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from fault_parts.tally import REFUSED, SURVIVED, WRONG, Tally
from fault_parts.victims import Victim
from PIL import Image

MEMORY_MB = 1500  # more than this above what the process had is a bomb that went off
SECONDS = 120  # of a processor


def drawn(folder: Path, count: int, seed: int) -> None:
    """`count` pictures of a kind."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 6, 3))
    for number in range(count):
        pixels = np.clip(coarse + rng.integers(-40, 40, coarse.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).resize((48, 48), Image.Resampling.BICUBIC).save(folder / f"{number}.png")


def picture_bytes(seed: int) -> bytes:
    """A small picture; another seed is another one."""
    return _saved(Image.fromarray(np.random.default_rng(seed).integers(0, 256, (24, 24, 3), dtype=np.uint8)), "PNG")


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _png(width: int, height: int, pixels: bytes, depth: int = 8, colour: int = 0, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + extra + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def hostile() -> Iterator[tuple[str, str, bytes, bool]]:
    """What it is, its file name, its content, and whether it is a picture that can be learned from."""
    rng = np.random.default_rng(0)

    def plain() -> Image.Image:
        return Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8))

    for kind, suffix in (("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp"), ("BMP", "bmp"), ("GIF", "gif")):
        whole = _saved(plain(), kind)
        yield f"plain {kind}", f"plain.{suffix}", whole, True
        yield f"{kind} cut after 30 bytes", f"short.{suffix}", whole[:30], False
        yield f"{kind} cut in the middle", f"half.{suffix}", whole[: len(whole) // 2], False
        yield f"{kind} named .tiff", f"named-{suffix}.tiff", _saved(plain(), kind), True
        yield f"{kind} with another file behind it", f"tail.{suffix}", whole + b"PK\x03\x04" + bytes(999), True
    for side in (20_000, 65_000, 2**31 - 1):
        yield f"PNG header of {side} x {side}", f"huge-{side}.png", _png(side, side, zlib.compress(b"\0")), False
    bomb = zlib.compress(bytes(6300 * 12601), 9)
    yield "16-bit grey PNG of 6300 x 6300 in 80 kB", "bomb16.png", _png(6300, 6300, bomb, depth=16), False
    lines = zlib.compress(bytes(12_000 * 12_001), 9)
    yield "PNG of 12,000 x 12,000 zeros", "bomb8.png", _png(12_000, 12_000, lines), False
    text = _chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(200_000_000), 9))
    yield "PNG with 200 MB of packed comment", "comment.png", _png(8, 8, zlib.compress(bytes(72)), extra=text), False
    profile = _chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(200_000_000), 9))
    yield "PNG with 200 MB of packed profile", "profile.png", _png(8, 8, zlib.compress(bytes(72)), extra=profile), False
    yield "PNG of 0 x 0", "none.png", _png(0, 0, zlib.compress(b"")), False
    yield "PNG of 1 x 1", "one.png", _png(1, 1, zlib.compress(b"\0\x80")), True
    yield "PNG of 40,000 x 1", "line.png", _png(40_000, 1, zlib.compress(bytes(40_001))), True
    yield (
        "16-bit grey PNG",
        "deep.png",
        _saved(Image.fromarray(rng.integers(0, 65536, (20, 20), dtype=np.uint16)), "PNG"),
        True,
    )
    yield "CMYK JPEG", "cmyk.jpg", _saved(plain().convert("CMYK"), "JPEG"), True
    yield "1-bit PNG", "bit.png", _saved(plain().convert("1"), "PNG"), True
    yield "palette with transparency", "palette.png", _saved(plain().convert("P"), "PNG", transparency=3), True
    yield "transparent PNG", "alpha.png", _saved(plain().convert("RGBA"), "PNG"), True
    moving = [plain() for _ in range(3)]
    yield "animated GIF", "moving.gif", _saved(plain(), "GIF", save_all=True, append_images=moving), True
    yield "animated WEBP", "moving.webp", _saved(plain(), "WEBP", save_all=True, append_images=moving), True
    yield (
        "animated GIF of 3,000 frames",
        "long.gif",
        _saved(plain(), "GIF", save_all=True, append_images=moving * 1000),
        True,
    )
    pages = _saved(plain(), "TIFF", save_all=True, append_images=moving)
    yield "TIFF of several pages", "pages.tiff", pages, True
    yield "float TIFF", "float.tiff", _saved(Image.fromarray(rng.random((9, 9)).astype(np.float32)), "TIFF"), False
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "x" * 60_000
    yield "JPEG with 60 kB of EXIF, turned", "exif.jpg", _saved(plain(), "JPEG", exif=exif.tobytes()), True
    odd = b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(range(256)) * 200
    jpeg = _saved(plain(), "JPEG")
    spliced = jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(odd) + 2) + odd + jpeg[2:]
    yield "JPEG with damaged EXIF of 65,535 entries", "exif-bad.jpg", spliced, True
    svg = (
        b'<?xml version="1.0"?><!DOCTYPE s [<!ENTITY a "' + b"x" * 99 + b'">]><svg xmlns="http://www.w3.org/2000/svg"/>'
    )
    yield "SVG with entities", "drawing.svg", svg, False
    yield "SVG named .png", "drawing.png", svg, False
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.png", bytes(10_000_000))
    yield "zip named .png", "packed.png", packed.getvalue(), False
    yield "PostScript named .png", "script.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", False
    yield "HTML named .jpg", "page.jpg", b"<html><script>alert(1)</script></html>", False
    yield "nothing", "empty.png", b"", False
    yield "random bytes", "random.png", rng.bytes(5000), False
    yield "PPM header of a billion pixels", "huge.ppm", b"P6\n99999 99999\n255\n" + bytes(99), False
    yield "PPM with letters for numbers", "letters.ppm", b"P2\n3 3\n255\na b c d e f g h i\n", False


def hostile_pictures(tally: Tally, folder: Path, project: Path, most: int | None = None) -> None:
    """Each is taught to the project as a class of its own, and asked about."""
    criterion = f"learned or skipped with a reason, within {SECONDS} s of a processor and {MEMORY_MB} MB"
    with tally.line("pictures", "teach add", criterion) as line:
        for number, (what, name, content, good) in enumerate(list(hostile())[:most]):
            (folder / name).write_bytes(content)
            ended = Victim(lambda n=number, f=name: _teach(project, f"class {n}", folder / f), folder / "log").wait()
            added, reason, grown = ended.value if ended.code == 0 and ended.value else (None, ended.output[-400:], 0)
            dear = grown > MEMORY_MB or ended.worked > SECONDS
            if added is None or dear or (good and not added) or (not good and not (added or reason)):
                found = f"exit {ended.code}, {ended.worked:.0f} s, {grown:.0f} MB, {reason}"
                line.count(WRONG, f"{what} ({name})", found)
            else:
                line.count(SURVIVED if added else REFUSED, what, reason)


def _teach(project: Path, name: str, picture: Path) -> tuple[int, str, float]:
    from fscil.teach import Learner

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Learner.open(project) as learner:
        found = learner.learn(name, [picture])
        (told,) = learner.predict([picture])
        if bool(told.error) == bool(found.added):
            raise RuntimeError(f"learned {found.added}, yet predict says {told.error!r}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return found.added, "; ".join(skipped.reason for skipped in found.skipped), grown

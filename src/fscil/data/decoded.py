"""Images decoded once, at the size they are worked with, into a file that is mapped into memory and never loaded whole.

    CACHE/decoded/NAME-SIZE-PLACE-CONTENT.npy    (images, size, size, 3) uint8: training images, then test images
    CACHE/decoded/NAME-SIZE-PLACE-CONTENT.json   classes, labels, file names, checksums; written last: then all is there

PLACE and CONTENT are hashes: of where the files lie, and of their names, lengths and times with everything else that
shapes the pixels. What was decoded from another state of the same place is deleted.

An image becomes its centre square, scaled to SIZE (`fscil.data.images`): the same as scaling its short side to SIZE and
cutting out the centre.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.core.progress import Reporter, Update
from fscil.core.storage import cache_folder, clear_leftovers, lock, read_json, readable, write_atomic, write_sealed
from fscil.data.dataset import Dataset, ImageSet
from fscil.data.images import ImageError, open_image, square
from fscil.data.listing import Listing
from fscil.data.sources import Source

VERSION = 1  # raise it when decoding, or what a loader makes of a source, changes: older files are then not used
_POLL = 0.5  # seconds
MAX_PIXELS = 178_000_000  # more is taken for a decompression bomb, as by Pillow itself


def decoded(
    name: str, source: Source, size: int, list_files: Callable[[], Listing], reporter: Reporter, variant: str = ""
) -> Dataset:
    """The data set, decoded now if it was not before. `variant` says what else shapes the listing, such as a seed."""
    place = hashlib.sha256(f"{source.path}".encode(errors="surrogateescape")).hexdigest()[:8]
    content = hashlib.sha256(f"{VERSION} {variant} {source.stamp()}".encode()).hexdigest()[:12]
    family = f"{name}-{size}-{place}-"
    pixels = cache_folder() / "decoded" / f"{family}{content}.npy"
    found = _open(pixels)
    if found is None:
        with _alone(pixels.parent / f".{family}lock", reporter):
            found = _open(pixels)  # by another that was done while this one waited
            if found is None:
                _forget(pixels.parent, family)
                _make(pixels, source, size, list_files(), reporter)
                found = _open(pixels)
    if found is None:
        raise InputError(f"{pixels} changed while it was read; run again.")
    images, index = found
    first = len(index["train"]["labels"])
    halves = {"train": images[:first], "test": images[first:]}
    train, test = (
        ImageSet(part, np.array(index[half]["labels"], dtype=np.int64), tuple(index[half]["files"]))
        for half, part in halves.items()
    )
    return Dataset(name, train, test, tuple(index["class_names"]), index["identity"])


@contextlib.contextmanager
def _alone(path: Path, reporter: Reporter) -> Iterator[None]:
    """One process at a time decodes a source; the others wait and take what it made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 - closed below
    except OSError as error:
        raise readable(error, path) from error
    with file:
        if not lock(file):
            reporter.say("Another process is decoding these images; waiting for it.")
            while not lock(file):
                time.sleep(_POLL)
        yield


def _index(pixels: Path) -> Path:
    return pixels.with_suffix(".json")


def _open(pixels: Path) -> tuple[np.ndarray, dict[str, Any]] | None:
    """Images and what is known of them, or None where they are not there or not as they were written."""
    try:
        index = read_json(_index(pixels))
        mapped = np.load(pixels, mmap_mode="r")
        if _checksum(_stored_crcs(pixels, mapped)) != index["pixels"]:
            return None
        return mapped.view(np.ndarray), index
    except (InputError, OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _forget(folder: Path, family: str) -> None:
    """What was decoded from earlier states of the same source, and what a killed process left: nobody else writes."""
    clear_leftovers(folder)
    for path in [*folder.glob(f"{family}*"), *folder.glob(f".{family}*-*.*")]:
        with contextlib.suppress(OSError):  # another process has it open, where that is a reason
            path.unlink()


def _make(pixels: Path, source: Source, size: int, listing: Listing, reporter: Reporter) -> None:
    files = [file for file, _ in (*listing.train, *listing.test)]
    shape, started = (len(files), size, size, 3), time.monotonic()
    _check_room(pixels, shape)
    rows = {file: row for row, file in enumerate(files)}
    if len(rows) < len(files):
        raise InputError(f"{source.path} lists {len(files) - len(rows)} images twice; unpack or fetch it again.")
    crcs, hashes = [0] * len(files), [""] * len(files)

    def write(target: Path) -> None:
        # Not through a map of the file: where the disk is full, that kills the process, and this raises an error.
        with open(target, "wb") as out, reporter.task(f"Decoding to {size} pixels") as update:
            np.lib.format.write_array_header_2_0(
                out,
                {"descr": "|u1", "fortran_order": False, "shape": shape},
            )
            start = out.tell()
            for image, file, sha256 in _images(source, files, size, update):
                row = rows[file]
                out.seek(start + row * image.nbytes)
                out.write(image.tobytes())
                crcs[row], hashes[row] = zlib.crc32(image.tobytes()), sha256

    write_atomic(pixels, write)
    halves = {"train": listing.train, "test": listing.test}
    index: dict[str, Any] = {
        "what": f"Images of {source.path} at {size} pixels, in the .npy file of the same name",
        "class_names": list(listing.class_names),
        "pixels": _checksum(iter(crcs)),
        "identity": _identity(listing, size, dict(zip(files, hashes, strict=True))),
    }
    for half, labelled in halves.items():
        index[half] = {"files": [file for file, _ in labelled], "labels": [label for _, label in labelled]}
    write_sealed(_index(pixels), index)
    spent = max(time.monotonic() - started, 1e-3)
    reporter.say(
        f"{len(files):,} images decoded, {len(files) / spent:.0f} a second: {pixels}, {np.prod(shape) / 1e6:.0f} MB"
    )


def _images(source: Source, files: Sequence[str], size: int, update: Update) -> Iterator[tuple[np.ndarray, str, str]]:
    """Pixels, file and hash of the file, decoded by all processors; only as many files are read ahead as these need."""
    waiting: deque[Future[tuple[np.ndarray, str, str]]] = deque()
    workers, done = min(16, os.cpu_count() or 1), 0
    with ThreadPoolExecutor(workers) as pool:
        for file, content in source.read(files):
            waiting.append(pool.submit(_image, source, file, content, size))
            while len(waiting) > 8 * workers:
                yield waiting.popleft().result()
                update(done := done + 1, len(files))
        while waiting:
            yield waiting.popleft().result()
            update(done := done + 1, len(files))


def _image(source: Source, file: str, content: bytes, size: int) -> tuple[np.ndarray, str, str]:
    return decode(content, size, lambda: source.where(file)), file, hashlib.sha256(content).hexdigest()


def decode(content: bytes | Path, size: int, where: Callable[[], object] | None = None) -> np.ndarray:
    """One image file as (size, size, 3) uint8; `where` names it in a refusal, else its path does."""
    try:
        with open_image(content, MAX_PIXELS) as image:
            return square(image, size)
    except ImageError as error:
        name = where() if where else content
        raise InputError(f"{name} is not a usable image ({error}); replace or remove it.") from None


def _stored_crcs(pixels: Path, mapped: np.memmap) -> Iterator[int]:
    """Read as a file: what is read through the map would count as this process's memory."""
    with open(pixels, "rb") as file:
        file.seek(mapped.offset)
        for _ in range(len(mapped)):
            yield zlib.crc32(file.read(mapped[0].nbytes))


def _checksum(crcs: Iterator[int]) -> str:
    """Of all images by their own checksums, which can be taken in any order while they are decoded."""
    return hashlib.sha256(np.fromiter(crcs, dtype="<u4").tobytes()).hexdigest()


def _identity(listing: Listing, size: int, hashes: dict[str, str]) -> str:
    """Of the files' content: decoders of other machines may round otherwise, and the images are the same."""
    lines = sorted(
        f"{half} {listing.class_names[label]} {hashes[file]}"
        for half, labelled in (("train", listing.train), ("test", listing.test))
        for file, label in labelled
    )
    return hashlib.sha256("\n".join([f"{VERSION} {size}", *lines]).encode()).hexdigest()


def _check_room(pixels: Path, shape: tuple[int, ...]) -> None:
    """Better now than after minutes."""
    needed = int(np.prod(shape, dtype=object))
    folder = next(folder for folder in pixels.parents if folder.is_dir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{shape[0]:,} images of {shape[1]} pixels take {needed / 1e9:.1f} GB in {pixels.parent}, where "
            f"{free / 1e9:.1f} GB are free; free some space, set FSCIL_CACHE to another folder, or lower "
            f"data.image_size."
        )

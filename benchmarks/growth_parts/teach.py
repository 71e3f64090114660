"""What a project's commands take with 10 to 100,000 images, through the real store and the real encoder of glyphs.

Ten images a class. What fills a project are made-up features without pictures, one change a class as in real teaching;
what is timed learns, names and takes back pictures of noise as a user does. One project grows from size to size.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.hardware import forget_peak, peak_memory_mb, pick_device
from fscil.teach import Learner
from fscil.teach.project import changes
from fscil.teach.project.pictures import Picture
from fscil.teach.upkeep import check

SIZES = (10, 100, 1_000, 10_000, 100_000)
IMAGES = 10  # of a class
SHOTS = 5  # of a class that is learned while the clock runs
REPEATS = 5
MEMORY = 8 * 2**30  # bytes that it may ask for
LARGE = 50_000  # images, from which on what takes seconds is timed once
_NO_PIXELS = np.empty(0, dtype=np.uint8)


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Processor seconds and seconds, the least of some repeats, by size: what else the machine does adds to others."""
    folder, points, stopped = Path(tempfile.mkdtemp(prefix="fscil-growth-")), [], ""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))
    try:
        learner = Learner.create(folder / "project", "glyphs", keep_images=False)
        learner.settle_threads()
        for size in sizes:
            started = time.process_time()
            filled = _fill(learner, size // IMAGES)
            filling = (time.process_time() - started) / max(1, filled)
            points.append({"images": size, "classes": size // IMAGES, "fill": filling, **_measured(learner, size)})
            print(*(f"{key} {value:.4g}" for key, value in points[-1].items()), flush=True)
        learner.close()
    except MemoryError:
        stopped = f"it needs more than {MEMORY >> 30} GiB with {size:,} images"
    finally:
        shutil.rmtree(folder)
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return {"images_of_a_class": IMAGES, "repeats": REPEATS, "points": points, "stopped": stopped}


def _measured(learner: Learner, size: int) -> dict[str, float]:
    random = np.random.default_rng(0)
    side = learner.encoder.reference.image_size
    taken: dict[str, list[float]] = {}

    def clock(name: str, action: Callable[[], object]) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        action()
        taken.setdefault(name, []).append(time.process_time() - processor)
        taken.setdefault(f"{name}_wall", []).append(time.perf_counter() - wall)

    def pictures(count: int) -> list[np.ndarray]:
        return list(random.integers(0, 256, (count, side, side, 3), dtype=np.uint8))

    learner.predict(pictures(1))  # the network is loaded, the calibration made
    for at in range(REPEATS):
        clock("learn", lambda at=at: learner.learn(f"learned {at}", pictures(SHOTS)))  # type: ignore[misc]
        clock("first_answer", lambda: learner.predict(pictures(1)))
        clock("answer", lambda: learner.predict(pictures(1)))
        clock("undo", learner.undo)

    def opened() -> None:
        with Learner.open(learner.path, readonly=True) as again:
            again.predict(pictures(1))

    for _ in range(3 if size < LARGE else 1):
        clock("open", lambda: Learner.open(learner.path, readonly=True).close())
        clock("open_and_answer", opened)
        clock("check", lambda: check(learner.path))
    clock("list", learner.classes)
    clock("overview", lambda: learner.overview(5))
    if size < LARGE:  # it compares every picture with every other
        clock("doctor", learner.doctor)
    device = pick_device("cpu")
    forget_peak(device)
    opened()
    found = {name: min(times) for name, times in taken.items()}
    return {**found, "peak_mb": peak_memory_mb(device), "disk_mb": _size_of(learner.path) / 2**20}


def _fill(learner: Learner, classes: int) -> int:
    """Until there are so many classes; returns how many were added."""
    there = len(learner.classes())
    with _nothing_kept(learner):
        for at in range(there, classes):
            _add(learner, at)
    return classes - there


def _add(learner: Learner, at: int) -> None:
    random = np.random.default_rng(at)
    centre = random.normal(size=learner.encoder.shape)
    features = (centre + 0.5 * random.normal(size=(IMAGES, *learner.encoder.shape))).astype(np.float32)
    made = [
        Picture("made up", hashlib.sha256(f"{at} {row}".encode()).hexdigest(), b"", "image/png", _NO_PIXELS)
        for row in range(IMAGES)
    ]
    changes.add_images(learner._store, f"made up {at}", made, features, keep=False)


@contextlib.contextmanager
def _nothing_kept(learner: Learner) -> Iterator[None]:
    """Without waiting for the disk, which is no part of what is timed."""
    writer, fsync = learner._store._writer, os.fsync
    assert writer is not None
    writer.execute("PRAGMA synchronous = OFF")
    os.fsync = lambda handle: None
    try:
        yield
    finally:
        os.fsync = fsync
        writer.execute("PRAGMA synchronous = FULL")


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

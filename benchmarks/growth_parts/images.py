"""Data sets of 10,000 to 1,000,000 images by folder: listing, stamp, decoding with hashes, opening again, first epoch.

A thousand images a class; every name is a hard link to one of a few PNG files of eight pixels a side, so that the files
of a million images take no room. Their content is read from memory then: how fast a disk is, is not in the numbers.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fscil.core.config import Config, DataConfig, build
from fscil.core.hardware import forget_peak, peak_memory_mb, pick_device
from fscil.core.progress import Reporter
from fscil.data import folder as folders
from fscil.data.benchmark import Benchmark
from fscil.data.sources import Folder
from fscil.training.loop import train_base

SIZES = (10_000, 100_000, 1_000_000)
IMAGES = 1_000  # of a class
FILES = 64  # different ones: a file has at most 65,000 names on ext4
SIDE = 8
TRAINING = {  # a network so small that what data costs can be seen
    "data": {"name": "folder", "image_size": SIDE, "way": 1},
    "backbone": {"kind": "vit", "image_size": SIDE, "patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"epochs": 1, "batch_size": 2048, "warmup_epochs": 0},
    "accelerator": "cpu",
}


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    points = []
    for size in sizes:
        place = Path(tempfile.mkdtemp(prefix="fscil-growth-"))
        try:
            points.append({"images": size, "classes": size // IMAGES, **_measured(place, size)})
        finally:
            shutil.rmtree(place)
        print(*(f"{key} {value:.4g}" for key, value in points[-1].items()), flush=True)
    return {"images_of_a_class": IMAGES, "files": FILES, "side": SIDE, "points": points}


def _measured(place: Path, size: int) -> dict[str, float]:
    """Processor seconds of each step, and the most memory that it took."""
    os.environ["FSCIL_CACHE"] = str(place / "cache")
    root, found = place / "images", dict[str, float]()
    device, quiet = pick_device("cpu"), Reporter(quiet=True)
    started = time.perf_counter()
    make(root, size)
    found["made_wall"] = time.perf_counter() - started

    def clock(name: str, action: Callable[[], Any]) -> Any:
        forget_peak(device)
        wall, processor = time.perf_counter(), time.process_time()
        result = action()
        found[name], found[f"{name}_wall"] = time.process_time() - processor, time.perf_counter() - wall
        found[f"{name}_mb"] = peak_memory_mb(device)
        return result

    data = DataConfig("folder", str(root), image_size=SIDE)
    clock("listing", lambda: folders._one_folder(root, data))
    clock("stamp", Folder(root).stamp)
    clock("decoding", lambda: folders.load(data, quiet))
    dataset = clock("opening", lambda: folders.load(data, quiet))
    found["cache_mb"] = sum(path.stat().st_size for path in (place / "cache").rglob("*") if path.is_file()) / 2**20
    base = len(dataset.class_names) - 1
    config = build(Config, {**TRAINING, "data": {**TRAINING["data"], "path": str(root), "base": base}})  # type: ignore[dict-item]
    session = clock("session", lambda: Benchmark(dataset, config.data).session(0))
    found["base_images"] = len(session)
    importlib.import_module("lightning.fabric")  # which takes seconds
    clock("epoch", lambda: train_base(session, config, place / "network"))
    return found


def make(root: Path, size: int) -> None:
    kept = root.parent / "files"
    kept.mkdir()
    random = np.random.default_rng(0)
    files = [kept / f"{at}.png" for at in range(FILES)]
    for file in files:
        Image.fromarray(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(file)
    for label in range(size // IMAGES):
        inside = root / f"class {label}"
        inside.mkdir(parents=True)
        for at in range(IMAGES):
            os.link(files[(label + at) % FILES], inside / f"{at}.png")

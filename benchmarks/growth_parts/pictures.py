"""What the commands of a project take that really holds 1,000 to 100,000 pictures, as a user runs them.

A hundred pictures a class, each one different, 32 pixels a side. `fscil teach init --from` takes them in, the encoder
glyphs that comes with the package looks at them. Every command is a process of its own, from its start to its end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

SIZES = (1_000, 10_000, 100_000)
IMAGES = 100  # of a class
SHOTS = 5  # of the class that is added
SIDE = 32
ENCODER = "glyphs"
COMPARED = 10_000  # pictures, up to which the doctor is asked: it compares each with every other


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, object]:
    points = []
    for size in sizes:
        place = Path(tempfile.mkdtemp(prefix="fscil-growth-"))
        try:
            points.append({"images": size, "classes": size // IMAGES, **_measured(place, size)})
        finally:
            shutil.rmtree(place)
        print(*(f"{key} {value:.4g}" for key, value in points[-1].items()), flush=True)
    return {"images_of_a_class": IMAGES, "shots": SHOTS, "side": SIDE, "encoder": ENCODER, "points": points}


def _measured(place: Path, size: int) -> dict[str, float]:
    """Processor seconds, seconds and the most memory of every command."""
    folder, project, copy = place / "pictures", place / "project", place / "project.backup"
    classes = size // IMAGES
    for label in range(classes):
        make(folder / f"class {label}", label, IMAGES)
    make(place / "new", classes, SHOTS)
    asked = place / "asked"
    make(asked, 0, 1, seed=1)
    found: dict[str, float] = {"given_mb": _size_of(folder)}

    def clock(name: str, *command: object) -> None:
        taken = _command(*command)
        found.update({name: taken[0], f"{name}_wall": taken[1], f"{name}_mb": taken[2]})

    clock("import", "teach", "init", project, "--encoder", ENCODER, "--from", folder)
    clock("list", "teach", "list", project)
    clock("answer", "predict", project, asked / "0.png")
    clock("add", "teach", "add", project, "new", place / "new")
    clock("undo", "teach", "undo", project)
    clock("check", "teach", "check", project)
    clock("backup", "teach", "backup", project, copy)
    clock("restore", "teach", "restore", copy, place / "restored")
    if size <= COMPARED:
        clock("doctor", "doctor", project)
    found["disk_mb"], found["file_mb"] = _size_of(project), copy.stat().st_size / 2**20
    return found


# A process begins with the memory of the one that started it, so that must be a small one.
_STARTER = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
done = subprocess.run([sys.executable, "-m", "fscil", *sys.argv[1:]], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
kilobytes = used.ru_maxrss / 1024 if sys.platform == "darwin" else used.ru_maxrss
print(json.dumps([used.ru_utime + used.ru_stime, time.perf_counter() - started, kilobytes / 1024]))
sys.exit(done.returncode)
"""


def _command(*words: object) -> tuple[float, float, float]:
    """Seconds of a processor, seconds, and MB."""
    done = subprocess.run([sys.executable, "-c", _STARTER, *map(str, words)], stdout=subprocess.PIPE, check=True)
    processor, wall, memory = json.loads(done.stdout)
    return processor, wall, memory


def make(folder: Path, label: int, count: int, seed: int = 0) -> None:
    """Coloured patterns: one of the class, and noise of each picture's own."""
    random = np.random.default_rng(label)
    pattern = random.integers(0, 256, (8, 8, 3))
    noise = np.random.default_rng([label, seed])
    folder.mkdir(parents=True)
    for at in range(count):
        pixels = np.clip(pattern + noise.normal(0, 25, pattern.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BILINEAR).save(folder / f"{at}.png")


def _size_of(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20

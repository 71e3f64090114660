"""Images for projects of one's own classes, as an encoder sees them: features once, kept in a cache folder.

A set has `train` (what may be taught) and `test` (what is asked) for every class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from fscil.data.glyphs import load
from fscil.data.images import square
from fscil.teach.learning.encoder import Encoder

ICONS = [
    *("disc", "ring", "box", "frame", "wedge", "plus", "cross", "star", "heart", "moon", "arrow", "bars"),
    *("house", "drop", "bolt", "gear", "grid", "wave", "key", "flag", "eye", "cup", "tree", "fish"),
]


@dataclass(frozen=True)
class Features:
    """Vectors as a project compares them, class by class."""

    train: list[np.ndarray]
    test: list[np.ndarray]


def features(cache: Path, name: str, encoder: Encoder, images: Iterator[tuple[str, int, np.ndarray]]) -> Features:
    """`images`: split, class and uint8 pixels, of any size."""
    file = cache / f"{name}-{encoder.reference.name}.npz"
    if not file.exists():
        size = encoder.reference.image_size
        parts: dict[str, list[np.ndarray]] = {"train": [], "test": []}
        labels: dict[str, list[int]] = {"train": [], "test": []}
        waiting: list[tuple[str, int, np.ndarray]] = []

        def flush() -> None:
            found = encoder.embed([square(Image.fromarray(pixels), size) for _, _, pixels in waiting])
            for (split, label, _), vector in zip(waiting, found, strict=True):
                parts[split].append(vector)
                labels[split].append(label)
            waiting.clear()

        for item in images:
            waiting.append(item)
            if len(waiting) == 64:
                flush()
        flush()
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(
            file,
            **{split: np.array(parts[split], dtype=np.float32) for split in parts},
            **{f"{split}_labels": np.array(labels[split]) for split in labels},
        )
    stored = np.load(file)
    classes = range(1 + int(max(stored["train_labels"].max(initial=-1), stored["test_labels"].max(initial=-1))))
    return Features(*([stored[s][stored[f"{s}_labels"] == c] for c in classes] for s in ("train", "test")))


def folder_images(
    root: Path, train: int, test: int, classes: int, others: bool = False, joined: bool = False
) -> Iterator[tuple[str, int, np.ndarray]]:
    """root/{train,val,test}/CLASS/*; `val` counts as test. Classes at even distances, or the others; random images.

    `joined`: from all folders together, for sets that have too few images to teach in one.
    """
    names = sorted({each.name for split in ("train", "test") for each in (root / split).iterdir()})
    places = np.linspace(0, len(names) - 1, min(classes, len(names))).round().astype(int)
    chosen = [name for at, name in enumerate(names) if (at in places) != others]
    for label, name in enumerate(chosen):
        parts = {
            split: sorted(file for each in folders for file in (root / each / name).glob("*"))
            for split, folders in (("train", ("train",)), ("test", ("val", "test")))
        }
        if joined:
            every = [file for files in parts.values() for file in files]
            mixed = [every[at] for at in np.random.default_rng(label).permutation(len(every))]
            parts = {"train": mixed[:train], "test": mixed[train:]}
        for split, most in (("train", train), ("test", test)):
            files = parts[split]
            for at in np.random.default_rng(label).permutation(len(files))[:most]:
                with Image.open(files[at]) as image:
                    yield split, label, np.asarray(image.convert("RGB"))


def array_images(file: Path, train: int, test: int, classes: Sequence[int]) -> Iterator[tuple[str, int, np.ndarray]]:
    """An .npz of train_images, train_labels, test_images, test_labels."""
    arrays = np.load(file)
    for split, most in (("train", train), ("test", test)):
        pixels, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        for at, label in enumerate(classes):
            rows = np.flatnonzero(labels == label)
            for row in rows[np.random.default_rng(label).permutation(len(rows))[:most]]:
                yield split, at, pixels[row]


def icon_images(train: int, test: int) -> Iterator[tuple[str, int, np.ndarray]]:
    for label, name in enumerate(ICONS):
        for row in range(train + test):
            yield ("train" if row < train else "test"), label, icon(name, np.random.default_rng([label, row]))


def icon(name: str, rng: np.random.Generator, side: int = 96) -> np.ndarray:
    """A symbol as people draw them: some filled, some outlined, in any colour, size and place, turned a little."""
    dark = rng.random() < 0.25
    ground = rng.integers(0, 60, 3) if dark else rng.integers(190, 256, 3)
    ink = rng.integers(150, 256, 3) if dark else rng.integers(0, 140, 3)
    image = Image.new("RGB", (4 * side, 4 * side), tuple(map(int, ground)))
    draw = ImageDraw.Draw(image)
    scale, turn = rng.uniform(0.5, 0.95) * 2 * side, np.deg2rad(rng.normal(0, 12))
    middle = 2 * side + rng.uniform(-0.25, 0.25, 2) * side
    stretch = np.exp(rng.normal(0, 0.12, 2))
    filled, width = rng.random() < 0.5, int(rng.uniform(0.05, 0.16) * 2 * side)
    colour = tuple(map(int, ink))
    matrix = scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) * stretch
    for kind, points in STROKES[name]:
        path = np.array(points, dtype=float) + rng.normal(0, 0.025, (len(points), 2))
        corners = [tuple(p) for p in path @ matrix.T + middle]
        if kind == "area" and filled:
            draw.polygon(corners, fill=colour)
        elif kind == "dot":
            draw.ellipse(
                [corners[0][0] - width, corners[0][1] - width, corners[0][0] + width, corners[0][1] + width],
                fill=colour,
            )
        else:
            draw.line([*corners, corners[0]] if kind == "area" else corners, fill=colour, width=width, joint="curve")
    out = np.asarray(image.resize((side, side), Image.Resampling.LANCZOS), dtype=float)
    return np.clip(out + rng.normal(0, 6, out.shape), 0, 255).astype(np.uint8)


def _arc(
    x: float, y: float, radius: float, start: float = 0, end: float = 360, tall: float = 1
) -> list[tuple[float, float]]:
    angles = np.deg2rad(np.linspace(start, end, 25))
    return [(x + radius * np.cos(a), y + tall * radius * np.sin(a)) for a in angles]


def _rays(count: int, inner: float, outer: float) -> list[tuple[float, float]]:
    angles = np.pi * np.arange(2 * count) / count - np.pi / 2
    return [((outer, inner)[at % 2] * np.cos(a), (outer, inner)[at % 2] * np.sin(a)) for at, a in enumerate(angles)]


_BOX = [(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)]
STROKES: dict[str, list[tuple[str, list[tuple[float, float]]]]] = {
    "disc": [("area", _arc(0, 0, 0.9))],
    "ring": [("line", _arc(0, 0, 0.9)), ("line", _arc(0, 0, 0.4))],
    "box": [("area", _BOX)],
    "frame": [("line", [*_BOX, _BOX[0]]), ("line", [(0.4 * x, 0.4 * y) for x, y in [*_BOX, _BOX[0]]])],
    "wedge": [("area", [(0, -0.9), (0.9, 0.8), (-0.9, 0.8)])],
    "plus": [("line", [(-0.9, 0), (0.9, 0)]), ("line", [(0, -0.9), (0, 0.9)])],
    "cross": [("line", [(-0.8, -0.8), (0.8, 0.8)]), ("line", [(0.8, -0.8), (-0.8, 0.8)])],
    "star": [("area", _rays(5, 0.4, 1))],
    "heart": [
        (
            "area",
            [(0, 0.9), (-0.9, -0.1), (-0.85, -0.6), (-0.4, -0.85), (0, -0.45), (0.4, -0.85), (0.85, -0.6), (0.9, -0.1)],
        )
    ],
    "moon": [("area", [*_arc(0, 0, 0.9, 60, 300), *_arc(0.4, 0, 0.75, 270, 90)])],
    "arrow": [("line", [(-0.9, 0), (0.8, 0)]), ("line", [(0.2, -0.6), (0.85, 0), (0.2, 0.6)])],
    "bars": [("line", [(-0.8, y), (0.8, y)]) for y in (-0.6, 0, 0.6)],
    "house": [
        ("area", [(0, -0.9), (0.85, -0.1), (0.85, 0.85), (-0.85, 0.85), (-0.85, -0.1)]),
        ("line", [(-0.2, 0.8), (-0.2, 0.3), (0.2, 0.3), (0.2, 0.8)]),
    ],
    "drop": [("area", [(0, -0.95), *_arc(0, 0.25, 0.6, -30, 210)])],
    "bolt": [("area", [(0.2, -0.95), (-0.55, 0.15), (-0.05, 0.15), (-0.2, 0.95), (0.55, -0.2), (0.05, -0.2)])],
    "gear": [("area", _rays(9, 0.65, 0.95)), ("line", _arc(0, 0, 0.3))],
    "grid": [("line", [(-0.8, y), (0.8, y)]) for y in (-0.4, 0.4)]
    + [("line", [(x, -0.8), (x, 0.8)]) for x in (-0.4, 0.4)],
    "wave": [("line", [(x, y + 0.3 * np.sin(4 * x)) for x in np.linspace(-0.9, 0.9, 25)]) for y in (-0.4, 0.4)],
    "key": [
        ("area", _arc(-0.5, 0, 0.4)),
        ("line", [(-0.1, 0), (0.9, 0), (0.9, 0.35)]),
        ("line", [(0.55, 0), (0.55, 0.3)]),
    ],
    "flag": [("line", [(-0.6, -0.9), (-0.6, 0.95)]), ("area", [(-0.6, -0.85), (0.8, -0.6), (-0.6, 0)])],
    "eye": [("line", [*_arc(0, 0.35, 0.95, 205, 335), *_arc(0, -0.35, 0.95, 25, 155)]), ("dot", [(0, 0)])],
    "cup": [("area", [(-0.7, -0.6), (0.5, -0.6), (0.35, 0.8), (-0.55, 0.8)]), ("line", _arc(0.5, 0, 0.35, -80, 80))],
    "tree": [("area", [(0, -0.95), (0.7, 0.35), (-0.7, 0.35)]), ("line", [(0, 0.35), (0, 0.95)])],
    "fish": [("area", _arc(-0.15, 0, 0.7, tall=0.55)), ("area", [(0.45, 0), (0.95, -0.45), (0.95, 0.45)])],
}


def character_images() -> Iterator[tuple[str, int, np.ndarray]]:
    """The forty characters that the network of glyphs was not trained on; `test` in other fonts."""
    data = load()
    for split, pixels in (("train", data.train.images), ("test", data.test.images)):
        for label, images in enumerate(pixels.reshape(100, -1, 32, 32, 3)[60:]):
            yield from ((split, label, image) for image in images)

"""The sets that `teach_heads.py` measures: which images, which encoder, which projects.

Everything of a head was chosen on what is in `DEVELOPMENT`, on `icons` 0-11 and on training images of CIFAR-100's
classes 0-39; `REPORTED` is in docs/teach.md and no choice is made on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from teach_data import array_images, character_images, folder_images, icon_images

Images = Iterator[tuple[str, int, np.ndarray]]
SMALL, LARGE, FEW, MORE = (5, 20), (5, 20, 80), (1, 5, 20), (1, 5, 20, 40)
DRAWS = {5: 20, 12: 20, 20: 10, 80: 5}  # projects, by their classes
NOVEL, BASE, STRANGE = range(60, 100), range(20, 60), range(20)  # of CIFAR-100's classes


@dataclass(frozen=True)
class Set:
    title: str
    encoder: str
    stored: str  # name of the images, under which their vectors are kept
    images: Callable[[Path], Images]
    sizes: tuple[int, ...]  # classes of a project
    shots: tuple[int, ...]
    known: range  # classes that may be taught
    strangers: range = range(0)  # classes that are never taught; those of `known` that a project lacks where empty


def _cifar(root: Path) -> Images:
    """Numbered anew: 0-39 the novel classes, 40-79 base classes, 80-99 base classes that are only asked about."""
    return array_images(root / "cifar100.npz", 40, 10, [*NOVEL, *BASE, *STRANGE])


def _cub(root: Path) -> Images:
    """The official halves have some 30 images of a class each, together 41 to 60."""
    return folder_images(root / "cub200", 40, 8, 100, joined=True)


def _grocery(root: Path) -> Images:
    return folder_images(root / "grocery", 40, 12, 81)


def _icons(_: Path) -> Images:
    return icon_images(40, 20)


def _characters(_: Path) -> Images:
    return character_images()


def _icon_set(encoder: str) -> Set:
    return Set("icons", encoder, "icons", _icons, (5, 12), MORE, range(12, 24), range(12))


def _cifar_sets(encoder: str) -> dict[str, Set]:
    novel = Set("CIFAR-100, novel classes", encoder, "cifar", _cifar, SMALL, MORE, range(40))
    every = Set("CIFAR-100, novel and base", encoder, "cifar", _cifar, (80,), MORE, range(80), range(80, 100))
    return {f"cifar-novel-{encoder}": novel, f"cifar-{encoder}": every}


REPORTED = {
    "icons-glyphs": _icon_set("glyphs"),
    "icons-cifar100": _icon_set("cifar100"),
    "characters-glyphs": Set("characters in other fonts", "glyphs", "characters", _characters, SMALL, FEW, range(40)),
    **_cifar_sets("cifar100"),
    **_cifar_sets("photos"),
    "grocery-photos": Set("Grocery Store", "photos", "grocery", _grocery, LARGE, MORE, range(81)),
    "cub-photos": Set("CUB-200", "photos", "cub", _cub, LARGE, MORE, range(100)),
}


def _other_cub(root: Path) -> Images:
    return folder_images(root / "cub200", 40, 8, 100, others=True)


def _tiny(root: Path) -> Images:
    return array_images(root / "tiny100.npz", 20, 10, range(60))


DEVELOPMENT = {
    "other-cub-photos": Set("CUB-200, the other classes", "photos", "cub-others", _other_cub, LARGE, MORE, range(100)),
    "tiny-photos": Set("Tiny-ImageNet", "photos", "tiny", _tiny, SMALL, FEW, range(60)),
}
SETS = REPORTED | DEVELOPMENT

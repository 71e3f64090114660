"""folder: a folder of images per class.

Either DIR/train/CLASS/* and DIR/test/CLASS/*, or DIR/CLASS/*, which is then split by seed.
"""

import os
import re
import zlib
from pathlib import Path

import numpy as np

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.data.dataset import Dataset, ImageSet, split_rows
from fscil.data.images import SUFFIXES, ImageError, open_image, square

MAX_PIXELS = 178_000_000  # more is taken for a decompression bomb, as by Pillow itself

Files = dict[str, list[Path]]  # class name -> its images


def load(config: DataConfig) -> Dataset:
    root, size = Path(config.path).expanduser(), config.image_size or 32
    train, test = _two_folders(root) or _one_folder(root, config)
    names = tuple(train)
    return Dataset(root.resolve().name, _decode(train, names, size), _decode(test, names, size), names)


def _two_folders(root: Path) -> tuple[Files, Files] | None:
    """The train/test layout, or None where the folder has the other one."""
    halves = {half: root / half for half in ("train", "test")}
    there = [half for half in halves.values() if half in _subfolders(root)]
    if len(there) == 1 and _subfolders(there[0]) and not _images(there[0]):  # else a class that is called "train"
        absent = next(half for half in halves.values() if half not in there)
        raise InputError(
            f"{root} has a folder {there[0].name} but no {absent.name}; add {absent} with a folder per class, or set "
            f"data.path={there[0]} to split that one by seed."
        )
    if len(there) < 2:
        return None
    train, test = _classes(halves["train"]), _classes(halves["test"])
    for name in sorted(train.keys() ^ test.keys(), key=_natural):
        has, lacks = ("train", "test") if name in train else ("test", "train")
        raise InputError(
            f"Class '{name}' has a folder in {halves[has]} but none in {halves[lacks]}; add {halves[lacks] / name} "
            f"with images, or remove the class."
        )
    return train, test


def _one_folder(root: Path, config: DataConfig) -> tuple[Files, Files]:
    train, test = {}, {}
    for name, files in _classes(root).items():
        if len(files) < 2:
            raise InputError(
                f"Class '{name}' has one image, {files[0]}, which cannot be split into train and test; "
                f"add images or remove the class."
            )
        # Seeded by name, so that adding a class leaves the others' split as it is.
        seed = (config.split_seed, zlib.crc32(os.fsencode(name)))
        kept, held = split_rows(len(files), config.test_fraction, seed)
        train[name], test[name] = [files[row] for row in kept], [files[row] for row in held]
    return train, test


def _classes(folder: Path) -> Files:
    """Class folders with their images, both in natural order."""
    classes = {sub.name: _images(sub) for sub in _subfolders(folder)}
    if not any(classes.values()):
        raise InputError(
            f"{folder} has no images in class folders; put the images of each class into a folder of its own, "
            f"such as {folder / 'cat' / 'photo1.jpg'}."
        )
    for name, files in classes.items():
        if not files:
            raise InputError(
                f"Class folder {folder / name} has no image directly in it ({', '.join(s[1:] for s in SUFFIXES)}); "
                f"add images or remove the folder."
            )
    return classes


def _subfolders(folder: Path) -> list[Path]:
    return [entry for entry in _entries(folder) if entry.is_dir()]


def _images(folder: Path) -> list[Path]:
    return [entry for entry in _entries(folder) if entry.suffix.lower() in SUFFIXES and entry.is_file()]


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, in natural order, without hidden entries such as .DS_Store."""
    try:
        return sorted((e for e in folder.iterdir() if not e.name.startswith(".")), key=lambda e: _natural(e.name))
    except FileNotFoundError:
        raise InputError(f"{folder} does not exist; check data.path.") from None
    except NotADirectoryError:
        raise InputError(f"{folder} is a file, not a folder; check data.path.") from None
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}); check its permissions.") from None


def _natural(name: str) -> tuple[list[str | int], str]:
    """Sorts bird2 before bird10; the name itself settles ties such as 2 and 02."""
    parts = re.split(r"(\d+)", name.casefold())
    return [int(part) if part.isdigit() and at % 2 else part for at, part in enumerate(parts)], name


def _decode(files: Files, names: tuple[str, ...], size: int) -> ImageSet:
    paths = [path for name in names for path in files[name]]
    images = np.empty((len(paths), size, size, 3), dtype=np.uint8)
    for row, path in enumerate(paths):
        images[row] = decode(path, size)
    return ImageSet(images, np.repeat(np.arange(len(names)), [len(files[name]) for name in names]))


def decode(path: Path, size: int) -> np.ndarray:
    """One image file as (size, size, 3) uint8."""
    try:
        with open_image(path, MAX_PIXELS) as image:
            return square(image, size)
    except ImageError as error:
        raise InputError(f"{path} is not a usable image ({error}); replace or remove it.") from None

"""folder: a folder of images per class.

Either DIR/train/CLASS/* and DIR/test/CLASS/*, or DIR/CLASS/*, which is then split by seed.
"""

import os
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.data.dataset import Dataset, ImageSet, split_rows
from fscil.data.decoded import decode, decoded
from fscil.data.images import SUFFIXES
from fscil.data.listing import Labelled, Listing
from fscil.data.sources import Folder

KEPT_FROM = 500  # images: fewer are decoded each time, in seconds, and leave no copy in the cache folder

Files = dict[str, list[Path]]  # class name -> its images


def load(config: DataConfig, reporter: Reporter | None = None) -> Dataset:
    root, size = Path(config.path).expanduser(), config.image_size or 32
    train, test = _two_folders(root) or _one_folder(root, config)
    found = Listing(tuple(train), _labelled(train, root), _labelled(test, root))
    if len(found.train) + len(found.test) < KEPT_FROM:
        kept, held = (_decode(labelled, root, size) for labelled in (found.train, found.test))
        return Dataset(root.resolve().name, kept, held, found.class_names)
    variant = f"{config.test_fraction} {config.split_seed}"
    dataset = decoded("folder", Folder(root), size, lambda: found, reporter or Reporter(), variant)
    # What identifies a base session here are its own images: others may come and go.
    return replace(dataset, name=root.resolve().name, identity="")


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


def _labelled(files: Files, root: Path) -> Labelled:
    named = enumerate(files.values())
    return [(path.relative_to(root).as_posix(), label) for label, paths in named for path in paths]


def _decode(labelled: Labelled, root: Path, size: int) -> ImageSet:
    images = np.empty((len(labelled), size, size, 3), dtype=np.uint8)
    for row, (name, _) in enumerate(labelled):
        images[row] = decode(root / name, size)
    return ImageSet(images, np.array([label for _, label in labelled]), tuple(name for name, _ in labelled))

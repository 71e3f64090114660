"""cifar100: the original archive (Krizhevsky 2009) through torchvision, with its checksums.

The published few-shot lists (Tao et al., CVPR 2020) are folders of session_2.txt .. session_9.txt: one row of the
50,000 training images per line.
"""

from __future__ import annotations

import errno
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.storage import cache_folder
from fscil.data.dataset import Dataset, ImageSet

if TYPE_CHECKING:  # torchvision takes seconds to import, and most runs do not need it
    from torchvision.datasets import CIFAR100

# What torchvision, urllib and tarfile raise when an archive cannot be fetched, checked or unpacked.
_FAILURES = (OSError, RuntimeError, HTTPException, ValueError, EOFError, zlib.error, tarfile.TarError)


def load(config: DataConfig, source: type[CIFAR100] | None = None) -> Dataset:
    """Read the unpacked archive; unpack or fetch it first where needed. `source` carries address and checksums."""
    if source is None:
        from torchvision.datasets import CIFAR100

        source = CIFAR100
    root = _root(config, source)
    halves = _open(root, source)
    if halves is None:
        _provide(root, source, config.download)
        halves = _open(root, source)
    if halves is None:
        raise InputError(f"{root / source.base_folder} changed while it was read; run again.")
    train, test = (ImageSet(half.data, np.array(half.targets, dtype=np.int64)) for half in halves)
    return Dataset("cifar100", train, test, tuple(halves[0].classes))


def _root(config: DataConfig, source: type[CIFAR100]) -> Path:
    """The folder that holds the archive; a path to the archive or to its unpacked folder will do."""
    if not config.path:
        return cache_folder() / "cifar100"
    path = Path(config.path).expanduser()
    return path.parent if os.path.isfile(path) or path.name == source.base_folder else path


def _open(root: Path, source: type[CIFAR100]) -> tuple[Any, Any] | None:
    try:
        return source(root, train=True), source(root, train=False)
    except PermissionError as error:
        raise InputError(f"No permission to read {error.filename or root}; change its permissions.") from None
    except RuntimeError:  # torchvision: a file is missing, or its checksum differs
        return None


def _provide(root: Path, source: type[CIFAR100], download: bool) -> None:
    """Unpack the archive at `root`, or a downloaded one."""
    from torchvision.datasets.utils import check_integrity, extract_archive

    archive = root / source.filename
    if check_integrity(archive, source.tgz_md5):
        _unpack(root, source, lambda folder: extract_archive(archive, folder), f"{archive} could not be unpacked")
    elif download:
        _unpack(root, source, lambda folder: source(folder, download=True), f"{source.url} could not be downloaded")
    elif archive.exists() or (root / source.base_folder).exists():
        damaged = archive if archive.exists() else root / source.base_folder
        raise InputError(f"{damaged} is damaged (its checksum differs); set data.download=true to fetch it again.")
    else:
        raise InputError(
            f"CIFAR-100 is not in {root}; put the archive at {archive} (from {source.url}), "
            f"or set data.download=true to fetch it."
        )


def _unpack(root: Path, source: type[CIFAR100], make: Callable[[Path], Any], failure: str) -> None:
    """Make the data in a folder next to its target, then rename it: what is at the target is always complete."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".unpacking-") as folder:
            make(Path(folder))
            target = root / source.base_folder
            if target.exists():  # a damaged one; goes with the temporary folder
                os.replace(target, Path(folder) / "damaged")
            os.replace(Path(folder) / source.base_folder, target)
    except _FAILURES as error:
        raise InputError(f"{failure}: {_reason(error, root)}.") from None


def _reason(error: Exception, root: Path) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk of {root} is full; free some space"
    if isinstance(error, PermissionError):
        return f"no permission to write to {root}; set data.path to another folder"
    if isinstance(error, RuntimeError) and "corrupted" in str(error):
        return "what arrived has another checksum; try again, or put the archive there by hand"
    return f"{error}; check the network and the disk, or put the archive into {root} by hand"


def session_lists(config: DataConfig, dataset: Dataset) -> list[np.ndarray]:
    """The published shots, one array of training rows per novel session, checked against the protocol."""
    folder = Path(config.session_lists).expanduser()
    if config.order_seed >= 0:
        raise InputError("data.session_lists follow the natural class order; set data.order_seed=-1 to use them.")
    base_list = folder / "session_1.txt"
    if base_list.exists():
        rows, wanted = _rows(base_list, dataset), np.flatnonzero(dataset.train.labels < config.base)
        if not np.array_equal(np.sort(rows), wanted):
            raise InputError(
                f"{base_list} does not list exactly the {len(wanted)} training images of the first {config.base} "
                f"classes; check data.base and that the list belongs to {dataset.name}."
            )
    novel = config.sessions or (len(dataset.class_names) - config.base) // config.way
    return [_novel_list(folder / f"session_{index + 1}.txt", index, config, dataset) for index in range(1, novel + 1)]


def _novel_list(path: Path, index: int, config: DataConfig, dataset: Dataset) -> np.ndarray:
    rows = _rows(path, dataset)
    if len(rows) != config.way * config.shot:
        raise InputError(
            f"{path} lists {len(rows)} images, not {config.way * config.shot} ({config.way} classes of {config.shot}); "
            f"use the published list, or set data.way and data.shot to fit."
        )
    first = config.base + config.way * (index - 1)
    labels = dataset.train.labels[rows]
    for row, label in zip(rows, labels, strict=True):
        if not first <= label < first + config.way:
            raise InputError(
                f"{path} lists image {row} of class '{dataset.class_names[label]}' (label {label}), but this session "
                f"has the classes {first} to {first + config.way - 1}; check data.base, data.way and the list."
            )
    for label in range(first, first + config.way):
        count = int((labels == label).sum())
        if count != config.shot:
            raise InputError(
                f"{path} lists {count} images of class '{dataset.class_names[label]}', not {config.shot}; "
                f"use the published list."
            )
    return rows


def _rows(path: Path, dataset: Dataset) -> np.ndarray:
    """A list's rows: whole numbers, one per line, none twice, all inside the training images."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist; data.session_lists must be a folder with one session_N.txt per session."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}); check data.session_lists.") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InputError(
                f"{path}, line {number}: '{text:.40}' is not a row of the training images; give a whole number."
            )
        if text:
            rows.append(int(text))
    count = len(dataset.train)
    for row in rows:
        if row >= count:
            raise InputError(f"{path} lists image {row}, but {dataset.name} has training images 0 to {count - 1}.")
    listed, times = np.unique(np.array(rows, dtype=np.int64), return_counts=True)
    if (times > 1).any():
        raise InputError(f"{path} lists image {listed[times > 1][0]} twice; remove one and put the missing image.")
    return np.array(rows, dtype=np.int64)

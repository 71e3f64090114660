"""cifar100: the original archive (Krizhevsky 2009) through torchvision, with its checksums.

An image's name is its row in the archive's training array, which the published few-shot lists go by.
"""

from __future__ import annotations

import errno
import os
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import cache_folder
from fscil.data.dataset import Dataset, ImageSet
from fscil.data.download import Archive, fetch

if TYPE_CHECKING:  # torchvision takes seconds to import, and most runs do not need it
    from torchvision.datasets import CIFAR100

# What torchvision and tarfile raise when an archive cannot be unpacked.
_FAILURES = (OSError, RuntimeError, ValueError, EOFError, zlib.error, tarfile.TarError)


def load(config: DataConfig, reporter: Reporter | None = None, *, source: type[CIFAR100] | None = None) -> Dataset:
    """Read the unpacked archive; unpack or fetch it first where needed. `source` carries address and checksums."""
    if source is None:
        from torchvision.datasets import CIFAR100

        source = CIFAR100
    root = _root(config, source)
    halves = _open(root, source)
    if halves is None:
        _provide(root, source, config.download, reporter or Reporter())
        halves = _open(root, source)
    if halves is None:
        raise InputError(f"{root / source.base_folder} changed while it was read; run again.")
    train, test = (
        ImageSet(half.data, np.array(half.targets, dtype=np.int64), tuple(map(str, range(len(half.data)))))
        for half in halves
    )
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


def _provide(root: Path, source: type[CIFAR100], download: bool, reporter: Reporter) -> None:
    """Unpack the archive at `root`, or a downloaded one, which then goes."""
    archive = root / source.filename
    published = Archive(source.filename, source.url, source.tgz_md5)
    if archive.is_file() and published.matches(archive):
        _unpack(root, source)
    elif download:
        fetch(published, root, reporter)
        _unpack(root, source)
        archive.unlink(missing_ok=True)
    elif archive.exists() or (root / source.base_folder).exists():
        damaged = archive if archive.exists() else root / source.base_folder
        raise InputError(f"{damaged} is damaged (its checksum differs); set data.download=true to fetch it again.")
    else:
        raise InputError(
            f"CIFAR-100 is not in {root}; put the archive at {archive} (from {source.url}), "
            f"or set data.download=true to fetch it."
        )


def _unpack(root: Path, source: type[CIFAR100]) -> None:
    """Make the data in a folder next to its target, then rename it: what is at the target is always complete."""
    from torchvision.datasets.utils import extract_archive

    archive = root / source.filename
    try:
        with tempfile.TemporaryDirectory(dir=root, prefix=".unpacking-") as folder:
            extract_archive(archive, folder)
            target = root / source.base_folder
            if target.exists():  # a damaged one; goes with the temporary folder
                os.replace(target, Path(folder) / "damaged")
            os.replace(Path(folder) / source.base_folder, target)
    except _FAILURES as error:
        raise InputError(f"{archive} could not be unpacked: {_reason(error, root)}.") from None


def _reason(error: Exception, root: Path) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk of {root} is full; free some space"
    if isinstance(error, PermissionError):
        return f"no permission to write to {root}; set data.path to another folder"
    return f"{error}; check the disk, or unpack it into {root} by hand"

"""Files: images named on the command line or found in folders, and writing one whole."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from fscil.core.errors import InputError
from fscil.core.storage import write_atomic
from fscil.data.images import SUFFIXES


def expand(arguments: Iterable[str]) -> list[Path]:
    """Files as they are, folders as the images in them (and in their folders), patterns as what they match."""
    found: list[Path] = []
    for argument in arguments:
        path = Path(argument).expanduser()
        if path.is_dir():
            inside = images_in(path, deep=True)
            if not inside:
                raise InputError(f"The folder {path} holds no images ({', '.join(s[1:] for s in SUFFIXES)}).")
            found += inside
        elif path.exists() or not glob.has_magic(str(path)):
            found.append(path)  # a missing file is reported with the other unreadable ones
        else:
            matched = sorted(glob.glob(str(path), recursive=True))
            if not matched:
                raise InputError(f"Nothing matches {argument}; check the pattern.")
            for match in map(Path, matched):
                found += images_in(match, deep=True) if match.is_dir() else [match]
    return list(dict.fromkeys(found))


def class_folders(folder: Path) -> list[Path]:
    try:
        found = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be read ({error.strerror}); check the path.") from None
    if not found:
        raise InputError(f"{folder} has no folders; put the images of each class into a folder named like the class.")
    return found


def images_in(folder: Path, *, deep: bool = False) -> list[Path]:
    """Images by their suffix, in order of name, without hidden files and folders."""
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if deep and not name.startswith("."))
        found += [Path(root) / n for n in sorted(names) if n.lower().endswith(SUFFIXES) and not n.startswith(".")]
    return found


def write_bytes(path: Path, content: bytes) -> None:
    def write(target: Path) -> None:
        target.write_bytes(content)

    write_atomic(path, write)

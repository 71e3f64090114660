"""Files: images named on the command line or found in folders, and writing one whole."""

import contextlib
import errno
import glob
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from fscil.core.errors import InputError
from fscil.core.storage import write_atomic
from fscil.data.images import SUFFIXES
from fscil.teach.project.leftovers import held


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
        # A link back would be a class that takes the pictures of all others.
        found = [entry for entry in found if not folder.resolve().is_relative_to(entry.resolve())]
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
    write_whole(path, lambda target: target.write_bytes(content))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """The file or nothing. Held while it is written, so that what a killed process leaves can be told from it."""

    def locked(target: Path) -> None:
        stack.enter_context(held(target))
        write(target)

    try:
        with contextlib.ExitStack() as stack:
            write_atomic(path, locked)
    except InputError as error:
        if error.__cause__ is None:  # not of the disk but of what was to be written
            raise
        raise InputError(f"{path} was not written: {cause(error.__cause__, path.parent)}.") from None


def cause(error: BaseException | None, folder: Path) -> str:
    """Why something in the folder could not be written, and what to do."""
    number, code = getattr(error, "errno", None), getattr(error, "sqlite_errorcode", 0) & 0xFF
    full = code == sqlite3.SQLITE_IOERR and shutil.disk_usage(folder).free < 2**20  # so SQLite reports it at times
    if full or number in (errno.ENOSPC, errno.EDQUOT) or code == sqlite3.SQLITE_FULL:
        return "the disk is full; free some space and try again"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) or code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        if hasattr(os, "statvfs") and folder.exists() and os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "the disk is mounted for reading only; work on a copy elsewhere"
        return "you have no right to write there; ask the owner for it, or work on a copy"
    return f"{getattr(error, 'strerror', None) or error}; check the folder and its disk"

"""New projects, whole or not at all: put together in a folder inside their own, then moved up, the database last."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from fscil.core.errors import InputError
from fscil.teach.project.files import cause
from fscil.teach.project.inspection import FILE
from fscil.teach.project.leftovers import clear, held
from fscil.teach.project.note import NOTE
from fscil.teach.project.transaction import flush_folder
from fscil.teach.project.trash import is_own

# What a project keeps of its encoder, in state/.
WEIGHTS = tuple(f"{what}.{kind}" for what in ("encoder", "embedding") for kind in ("safetensors", "onnx"))
WORK = r"\.project-fscil-[0-9a-f]{8}"  # names of folders that projects are put together in


@contextlib.contextmanager
def assembled(path: Path) -> Iterator[Path]:
    """A folder to make the project in; what is in it when the block ends is moved to `path`. Refused, none is left."""
    new = [folder for folder in (path, *path.absolute().parents) if not folder.exists()]
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file; choose a folder for the project.")
        path.mkdir(parents=True, exist_ok=True)
        with held(path) as mine:
            if mine is False:
                raise InputError(f"Another process is making a project in {path}; wait for it, or choose another one.")
            _refuse_used(path)
            clear(path, WORK)
            with work_folder(path) as work:
                yield work
                _move_up(work, path)
    except OSError as error:
        raise InputError(f"No project can be made in {path}: {cause(error, path)}.") from None
    finally:
        with contextlib.suppress(OSError):  # what holds something stays, a project above all
            for folder in new:
                folder.rmdir()


@contextlib.contextmanager
def work_folder(path: Path) -> Iterator[Path]:
    work = path / f".project-fscil-{secrets.token_hex(4)}"
    work.mkdir()
    try:
        with held(work):
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _move_up(work: Path, path: Path) -> None:
    """Folders as a whole, however many files they hold, but where an interrupted making left one of their name."""
    for entry in [entry for entry in work.iterdir() if entry.name != FILE]:
        target = path / entry.name
        if entry.is_dir() and target.is_dir():
            for file in entry.iterdir():
                os.replace(file, target / file.name)
        else:
            os.replace(entry, target)
        if target.is_dir():
            flush_folder(target)
    flush_folder(path)
    os.replace(work / FILE, path / FILE)  # from here on there is a project
    flush_folder(path)


def _refuse_used(path: Path) -> None:
    refuse_foreign(path)
    if (path / FILE).exists():
        raise InputError(f"{path} is a project already; open it, or choose another folder.")
    # What an interrupted making left behind does not count.
    for entry in os.scandir(path):
        if entry.name == "images" and entry.is_dir() and all(map(is_own, os.listdir(entry.path))):
            continue
        if not entry.name.startswith(".project-") and entry.name not in ("state", NOTE):
            raise InputError(f"{path} is not empty; choose an empty or new folder for the project.")


def refuse_foreign(path: Path) -> None:
    """A project writes and moves files in its own folder only, never where a link leads, and opens no pipe or device:
    one never ends, or never begins.
    """
    folders = {path / name: stat.S_ISDIR for name in ("images", "trash", "state")}
    files = {path / name: stat.S_ISREG for name in (NOTE, FILE, f"{FILE}-wal", f"{FILE}-shm")}
    weights = {path / "state" / name: stat.S_ISREG for name in WEIGHTS}
    for place, is_right in (folders | files | weights).items():
        with contextlib.suppress(OSError):  # not there, or not to be seen
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise InputError(f"{place} is a symbolic link; put what it leads to in its place, or remove it.")
            if not is_right(mode):
                what = "a folder" if place in folders else "a plain file"
                raise InputError(f"{place} is not {what}, as in every project; remove it, or restore a backup.")


def refuse_own(target: Path) -> None:
    """A file for others does not go where a project keeps its own: it would take the place of the database, or be taken
    for its log, which SQLite removes.
    """
    own = {FILE, NOTE, "images", "trash", "state", *(f"{FILE}-{what}" for what in ("wal", "shm", "journal"))}
    target = target.parent.resolve() / target.name  # a link is replaced, not followed
    for place in (target, *target.parents):
        if place.name.casefold() in own and (place.parent / FILE).exists():
            raise InputError(f"{place} is the project's own in {place.parent}; choose another place for the file.")

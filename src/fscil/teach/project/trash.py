"""Image files that no row names go to trash/, and come back when a row names them again. None is deleted."""

import errno
import hashlib
import itertools
import logging
import os
import re
import stat
from pathlib import Path

from fscil.core.errors import InputError
from fscil.data.images import SUFFIX_OF
from fscil.teach.project.limits import MAX_FILE_BYTES

# What a project writes into images/, whole or under its temporary name; nothing else there is touched.
_OWN = re.compile(rf"(?:[0-9a-f]{{64}}|\.[0-9a-f]{{64}}-(?:fscil-)?[0-9a-f]{{8}})(?:{'|'.join(SUFFIX_OF.values())})")


def is_own(name: str) -> bool:
    return _OWN.fullmatch(name) is not None


def tidy(project: Path, named: set[str]) -> None:
    """Under the writer's lock, so that no file is about to be named."""
    images, trash = project / "images", project / "trash"
    entries = list(os.scandir(images)) if images.is_dir() else []
    back = {name: found for name in named - {e.name for e in entries} if (found := in_trash(trash, name))}
    for name, found in back.items():
        images.mkdir(exist_ok=True)
        os.rename(found, images / name)
    if back:
        logging.getLogger(__name__).warning("%d images are back from %s; nothing is lost.", len(back), trash)
    for entry in entries:
        if entry.name not in named and is_own(entry.name) and entry.is_file(follow_symlinks=False):
            set_aside(project, entry.name)


def set_aside(project: Path, name: str) -> None:
    """From images/ to trash/, under a name that is free there."""
    trash = project / "trash"
    trash.mkdir(exist_ok=True)
    places = (trash / f"{name}{f'.{n}' if n else ''}" for n in itertools.count())
    os.rename(project / "images" / name, next(place for place in places if not os.path.lexists(place)))


def damaged_pictures(project: Path, names: list[str]) -> dict[str, str]:
    """Those whose content is not to be had, as 'damaged' or 'missing'."""
    found = {}
    for name in names:
        try:
            stored_content(project, name)
        except InputError:
            found[name] = "damaged" if (project / "images" / name).is_file() else "missing"
    return found


def in_trash(trash: Path, name: str) -> Path | None:
    """A file with the content that an image's name, its hash, stands for."""
    places = itertools.chain([trash / name], trash.glob(f"{name}.*")) if is_own(name) else ()
    return next((place for place in places if _has(place, name)), None)


def stored_content(project: Path, name: str) -> bytes:
    """The content that an image's name, its hash, stands for, wherever it is; who only reads moves nothing back."""
    path = project / "images" / name
    try:
        content = _read(path)
        if hashlib.sha256(content).hexdigest() == name[:64]:
            return content
        wrong = "is damaged"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror})"
    kept = in_trash(project / "trash", name)
    if kept is None:
        raise InputError(f"The image file {path} {wrong}; bring it back from a backup, or remove the image.")
    return _read(kept)


def _has(path: Path, name: str) -> bool:
    try:
        return hashlib.sha256(_read(path)).hexdigest() == name[:64]
    except OSError:
        return False


def _read(path: Path) -> bytes:
    """Of a plain file, not larger than what a project takes: a pipe would never end, nor a device."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            raise OSError(errno.EINVAL, "it is no picture of this project")
        return file.read(MAX_FILE_BYTES)

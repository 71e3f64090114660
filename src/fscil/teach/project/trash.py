"""Image files that no row names go to trash/, and come back when a row names them again: nothing is deleted.

A killed process leaves such files, undoing does, and an older database that was put in the place of a newer one.
"""

import contextlib
import hashlib
import itertools
import logging
import os
import re
from pathlib import Path

from fscil.data.images import SUFFIX_OF

# What a project writes into images/, whole or under its temporary name; nothing else there is touched.
_OWN = re.compile(rf"(?:[0-9a-f]{{64}}|\.[0-9a-f]{{64}}-[0-9a-f]{{8}})(?:{'|'.join(SUFFIX_OF.values())})")


def tidy(project: Path, named: set[str]) -> None:
    """Under the writer's lock, so that no file is about to be named."""
    images, trash = project / "images", project / "trash"
    entries = list(os.scandir(images)) if images.is_dir() else []
    missing = named.difference(entry.name for entry in entries) if trash.is_dir() else set()
    back = {name: found for name in missing if (found := in_trash(trash, name))}
    for name, found in back.items():
        images.mkdir(exist_ok=True)
        os.rename(found, images / name)
    if back:
        logging.getLogger(__name__).warning("%d images are back from %s; nothing is lost.", len(back), trash)
    for entry in entries:
        if entry.name not in named and _OWN.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            trash.mkdir(exist_ok=True)
            places = (trash / f"{entry.name}{f'.{n}' if n else ''}" for n in itertools.count())
            os.rename(entry.path, next(place for place in places if not os.path.lexists(place)))


def in_trash(trash: Path, name: str) -> Path | None:
    """A file with the content that an image's name, its hash, stands for."""
    for path in itertools.chain([trash / name], trash.glob(f"{name}.*")) if _OWN.fullmatch(name) else ():
        with contextlib.suppress(OSError):
            if hashlib.sha256(path.read_bytes()).hexdigest() == name[:64]:
                return path
    return None

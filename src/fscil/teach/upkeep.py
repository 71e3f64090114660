"""Looking after a project: is it whole, make it whole, and bring one back from a backup."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from fscil.data.images import square
from fscil.teach.encoders import loading
from fscil.teach.learner import Learner
from fscil.teach.learning.encoder import Reference
from fscil.teach.project import pictures
from fscil.teach.project.backup import unpack
from fscil.teach.project.inspection import DamagedError
from fscil.teach.project.making import assembled
from fscil.teach.project.note import NOTE, OutdatedError
from fscil.teach.project.records import Backup, ProjectCheck
from fscil.teach.project.repair import Embed, rebuild
from fscil.teach.project.trash import damaged_pictures, set_aside

SHOWN = 20  # of a long list


def restore(file: str | Path, path: str | Path) -> Backup:
    """A backup as a project in an empty or absent folder. All of it is checked before there is a project."""
    file = Path(file).expanduser()
    with assembled(Path(path).expanduser()) as work:
        contents = unpack(file, work)
        loading.check(Reference.from_json(contents.meta["encoder"]), work / "state")
    return Backup(str(file), file.stat().st_size, contents.now.classes, contents.now.images)


def check(path: str | Path, repair: bool = False) -> ProjectCheck:
    """Everything that can be checked: the database row by row, the encoder's weights, every picture.

    `repair`: what is damaged is made anew from the pictures where that is possible; nothing is deleted.
    """
    path = Path(path).expanduser()
    done: list[str] = []
    try:
        learner = Learner.open(path, readonly=not repair)
    except (DamagedError, OutdatedError) as error:
        if not repair:
            return ProjectCheck([], [str(error)])
        done = rebuild(path, error, _embedding(path / "state"))
        learner = Learner.open(path)
    wrong = []
    with learner:
        classes, names = learner.classes(), learner.picture_names()
        right = [
            *done,
            f"Database: {len(classes)} classes, {sum(info.images for info in classes)} images, every row as written.",
            f"Encoder: {learner.encoder_name}, with the weights that the project was made with.",
        ]
        if not learner.noted:
            wrong.append(f"{path / NOTE} is missing, so nobody can tell whether the database is the newest.")
    bad = damaged_pictures(path, names)
    moved = [name for name, reason in bad.items() if repair and reason == "damaged"]
    for name in moved:
        set_aside(path, name)
    if moved:
        right.append(f"{len(moved)} damaged pictures were moved to {path / 'trash'}; their features are kept.")
    if names and not bad:
        right.append(f"Pictures: {len(names)}, each with the content that its name says.")
    wrong += [f"The picture {path / 'images' / name} is {reason}." for name, reason in list(bad.items())[:SHOWN]]
    if len(bad) > SHOWN:
        wrong.append(f"... and {len(bad) - SHOWN} more pictures.")
    return ProjectCheck(right, wrong)


def _embedding(state: Path) -> Embed:
    encoder_of = functools.cache(lambda reference: loading.load(Reference.from_json(reference), state))

    def embed(reference: str, contents: list[bytes]) -> np.ndarray:
        encoder = encoder_of(reference)
        size = encoder.reference.image_size
        return encoder.features([square(pictures.open_checked(content), size) for content in contents])

    return embed

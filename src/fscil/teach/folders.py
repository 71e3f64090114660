"""A folder of class folders, taken in class by class: some classes with many images, or a great many of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fscil.core.progress import Update
from fscil.teach.project import files
from fscil.teach.project.limits import MAX_IMAGES_AT_ONCE, class_name
from fscil.teach.project.records import Learned


def learn_folders(
    learn: Callable[[str, Sequence[Path]], Learned], folder: Path, tell: Update = lambda done, total: None
) -> list[Learned]:
    """One answer per class; of a class with more images than can be learned at once, one per part. Names that cannot be
    are refused before anything is learned. `tell` hears how many images are done.
    """
    classes = [(class_name(each.name), files.images_in(each, deep=True)) for each in files.class_folders(folder)]
    done, total = 0, sum(len(images) for _, images in classes)
    tell(done, total)
    learned = []
    for name, images in classes:
        for start in range(0, len(images) or 1, MAX_IMAGES_AT_ONCE):
            part = images[start : start + MAX_IMAGES_AT_ONCE]
            learned.append(learn(name, part))
            done += len(part)
            tell(done, total)
    return learned

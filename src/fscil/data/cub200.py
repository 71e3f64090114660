"""cub200: CUB-200-2011 (Wah et al. 2011), photographs of 200 kinds of birds, from the original archive or its folder.

The split is the authors' own, in train_test_split.txt. Papers that have 4,693 and 1,171 images in the base session
instead of 3,000 and 2,864 drew one of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.data.dataset import Dataset
from fscil.data.decoded import decoded
from fscil.data.download import Archive
from fscil.data.listing import Counts, Listing
from fscil.data.sources import Source, provide

ARCHIVE = Archive(
    name="CUB_200_2011.tgz",
    url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
    md5="97eceeb196236b17998738112f37df78",
)
WHOLE = (Counts(classes=200, train=5994, test=5794), Counts(classes=100, train=3000, test=2864))


def load(
    config: DataConfig,
    reporter: Reporter | None = None,
    *,
    archive: Archive = ARCHIVE,
    whole: Sequence[Counts] = WHOLE,
) -> Dataset:
    reporter = reporter or Reporter()
    source = provide(config, "CUB_200_2011", archive, "images.txt", reporter)
    return decoded("cub200", source, config.image_size or 224, lambda: listing(source, whole), reporter)


def listing(source: Source, whole: Sequence[Counts] = WHOLE) -> Listing:
    """What the four lists say. Images are numbered from 1, class by class, and so are the classes."""
    top = source.top("images.txt")
    lists = {name: f"{top}{name}.txt" for name in ("images", "train_test_split", "image_class_labels", "classes")}
    text = {file: content.decode("utf-8", "replace") for file, content in source.read(lists.values())}
    images, split, labels, classes = (_numbered(source.where(file), text[file]) for file in lists.values())
    if not images.keys() == split.keys() == labels.keys():
        raise InputError(f"{source.where(top)}: the lists name different images; unpack or fetch the data set again.")
    numbers = {number: label for label, number in enumerate(sorted(classes, key=int))}
    halves: dict[str, list[tuple[str, int]]] = {"1": [], "0": []}
    for number in sorted(images, key=int):
        if split[number] not in halves or labels[number] not in numbers:
            raise InputError(
                f"{source.where(top)}: image {number} has the split '{split[number]:.20}' and the class "
                f"'{labels[number]:.20}'; unpack or fetch the data set again."
            )
        halves[split[number]].append((f"{top}images/{images[number]}", numbers[labels[number]]))
    found = Listing(tuple(classes[number] for number in numbers), halves["1"], halves["0"])
    for counts in whole:
        counts.check(source.path, found)
    return found


def _numbered(where: str, text: str) -> dict[str, str]:
    """Lines of a number and a word."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not all(len(line) == 2 and line[0].isascii() and line[0].isdigit() for line in lines):
        raise InputError(f"{where} is not a list of numbers and names; unpack or fetch the data set again.")
    return {line[0]: line[1] for line in lines}

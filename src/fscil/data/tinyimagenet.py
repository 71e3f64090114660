"""tinyimagenet: Tiny-ImageNet-200 (Stanford CS231n), photographs of 200 classes with 64 pixels a side.

The test half is the authors' validation set: their test images have no published labels. The class order is every
second class of the sorted WordNet ids, then the others, so that any first hundred covers the whole of WordNet's order,
in which animals come before things.
"""

from __future__ import annotations

from collections.abc import Sequence

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.data.dataset import Dataset
from fscil.data.decoded import decoded
from fscil.data.download import Archive
from fscil.data.images import SUFFIXES
from fscil.data.listing import Counts, Listing
from fscil.data.sources import Source, provide

ARCHIVE = Archive(
    name="tiny-imagenet-200.zip",
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
)
WHOLE = (Counts(classes=200, train=100_000, test=10_000), Counts(classes=100, train=50_000, test=5_000))


def load(
    config: DataConfig,
    reporter: Reporter | None = None,
    *,
    archive: Archive = ARCHIVE,
    whole: Sequence[Counts] = WHOLE,
) -> Dataset:
    reporter = reporter or Reporter()
    source = provide(config, "tiny-imagenet-200", archive, "wnids.txt", reporter)
    return decoded("tinyimagenet", source, config.image_size or 64, lambda: listing(source, whole), reporter)


def listing(source: Source, whole: Sequence[Counts] = WHOLE) -> Listing:
    top = source.top("wnids.txt")
    lists = [f"{top}{name}" for name in ("wnids.txt", "words.txt", "val/val_annotations.txt")]
    text = {file: content.decode("utf-8", "replace") for file, content in source.read(lists)}
    wnids, words, annotations = (text[file].splitlines() for file in lists)
    order = sorted(line.strip() for line in wnids if line.strip())
    order = [*order[0::2], *order[1::2]]
    label = {wnid: place for place, wnid in enumerate(order)}
    train, test = [], []
    for name in source.names():
        # train/WNID/images/WNID_N.JPEG
        parts = name.removeprefix(top).split("/")
        if parts[0] == "train" and len(parts) == 4 and parts[1] in label and name.lower().endswith(SUFFIXES):
            train.append((name, label[parts[1]]))
    for line in annotations:
        file, wnid, *_ = [*line.split("\t"), "", ""]
        if line.strip():
            if wnid not in label:
                raise InputError(f"{source.where(lists[2])}: '{line:.60}' names no class; fetch the data set again.")
            test.append((f"{top}val/images/{file}", label[wnid]))
    found = Listing(_names(order, words), sorted(train, key=lambda each: each[1]), test)
    for counts in whole:
        counts.check(source.path, found)
    return found


def _names(order: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """The first of a class's words; with its WordNet id, since some words stand for several things."""
    known = dict(line.split("\t", 1) for line in words if "\t" in line)
    return tuple(f"{known[wnid].split(',')[0]} ({wnid})" if wnid in known else wnid for wnid in order)

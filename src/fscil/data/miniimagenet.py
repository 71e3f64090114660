"""miniimagenet: 100 classes of ImageNet with 600 images each (Vinyals et al. 2016), cut for FSCIL (Tao et al. 2020).

The published names, such as n0153282900000005.jpg, say what an image is: the class is their first nine letters, and the
published list of test images makes the split of 500 and 100 (it comes with the package). So every layout that keeps
those names will do, whatever its folders: images/*.jpg with split/*.csv, a folder per class, train/CLASS and
test/CLASS, or the 64 + 16 + 20 classes of few-shot learning; as a folder or as an archive of it. There is no address to
fetch it from: ImageNet's terms do not let others hand it on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.data.dataset import Dataset
from fscil.data.decoded import decoded
from fscil.data.images import SUFFIXES
from fscil.data.listing import Counts, Listing
from fscil.data.session_lists import read_published, stem
from fscil.data.sources import Folder, Source, packed, place_of

WHOLE = (Counts(classes=100, train=50_000, test=10_000), Counts(classes=60, train=30_000, test=6_000))
_NAME = re.compile(r"(n\d{8})\d{8}")


def load(
    config: DataConfig,
    reporter: Reporter | None = None,
    *,
    test_names: Iterable[str] | None = None,
    whole: Sequence[Counts] = WHOLE,
) -> Dataset:
    reporter, place = reporter or Reporter(), place_of(config)
    if config.download:
        raise InputError("miniimagenet has no address to fetch it from; leave out data.download and set data.path.")
    if not place.exists():
        raise InputError(f"{place} does not exist; check data.path.")
    source: Source = Folder(place) if place.is_dir() else packed(place)
    tested = published_test() if test_names is None else frozenset(test_names)
    return decoded("miniimagenet", source, config.image_size or 84, lambda: listing(source, tested, whole), reporter)


def published_test() -> frozenset[str]:
    """Names of the published test images, without endings."""
    numbers: dict[str, list[int]] = read_published("miniimagenet")["test"]
    return frozenset(f"{wnid}{number:08d}" for wnid, those in numbers.items() for number in those)


def listing(source: Source, test_names: frozenset[str], whole: Sequence[Counts] = WHOLE) -> Listing:
    files: dict[str, str] = {}
    for file in source.names():
        if file.lower().endswith(SUFFIXES) and _NAME.fullmatch(name := stem(file)):
            files.setdefault(name, file)  # a copy of the same image in another folder is no other image
    if not files:
        raise InputError(
            f"{source.path} holds no image with a name such as n0153282900000005.jpg, by which classes and split are "
            f"told; for images with other names set data.name=folder."
        )
    classes = sorted({name[:9] for name in files})
    label = {wnid: place for place, wnid in enumerate(classes)}
    halves: dict[bool, list[tuple[str, int]]] = {False: [], True: []}
    for name in sorted(files):
        halves[name in test_names].append((files[name], label[name[:9]]))
    found = Listing(tuple(classes), halves[False], halves[True])
    for counts in whole:
        counts.check(source.path, found)
    return found

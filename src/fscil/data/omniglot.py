"""omniglot: 1,623 hand-drawn characters of 50 alphabets, 20 people each (Lake et al. 2015), as torchvision fetches it.

Classes come alphabet by alphabet, the background set first. People are split, not images: a share of the 20 drawers of
every alphabet is kept for testing (data.test_fraction, data.split_seed), so that the test asks about unseen hands.
"""

from __future__ import annotations

import re

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.data.dataset import Dataset, split_rows
from fscil.data.decoded import decoded
from fscil.data.download import Archive, fetch
from fscil.data.listing import Counts, Listing
from fscil.data.sources import Bundle, Folder, Source, packed, place_of

_ADDRESS = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
ARCHIVES = (
    Archive("images_background.zip", f"{_ADDRESS}/images_background.zip", "68d2efa1b9178cc56df9314c21c6e718"),
    Archive("images_evaluation.zip", f"{_ADDRESS}/images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811"),
)
CLASSES = (964, 1623)  # of the background set, and in all
DRAWERS = 20
_FILE = re.compile(r"images_(background|evaluation)/([^/]+/[^/]+)/\d+_(\d\d)\.png")


def load(
    config: DataConfig,
    reporter: Reporter | None = None,
    *,
    archives: tuple[Archive, Archive] = ARCHIVES,
    classes: tuple[int, int] = CLASSES,
) -> Dataset:
    reporter = reporter or Reporter()
    source, size = _source(config, archives, reporter), config.image_size or 32
    return decoded(
        "omniglot",
        source,
        size,
        lambda: listing(source, config, classes),
        reporter,
        variant=f"{config.test_fraction} {config.split_seed}",
    )


def _source(config: DataConfig, archives: tuple[Archive, Archive], reporter: Reporter) -> Source:
    """Both archives, both unpacked folders, or both fetched; torchvision has them in a folder omniglot-py."""
    place = place_of(config)
    for root in (place, place / "omniglot-py"):
        paths = [root / archive.name for archive in archives]
        if all(path.is_file() for path in paths):
            return Bundle([packed(path, archive) for path, archive in zip(paths, archives, strict=True)])
        if all(path.with_suffix("").is_dir() for path in paths):
            return Folder(root)
    if not config.download:
        raise InputError(
            f"omniglot is not in {place}: set data.path to the folder of {archives[0].name} and {archives[1].name}, or "
            f"set data.download=true to fetch them from {archives[0].url.rpartition('/')[0]}."
        )
    return Bundle([packed(fetch(archive, place, reporter), archive) for archive in archives])


def listing(source: Source, config: DataConfig, classes: tuple[int, int] = CLASSES) -> Listing:
    found = [(match, file) for file in source.names() if (match := _FILE.fullmatch(file))]
    names = sorted({match.group(1, 2) for match, _ in found})  # background before evaluation
    label = {name: place for place, name in enumerate(names)}
    _, tested = split_rows(DRAWERS, config.test_fraction, (config.split_seed,))
    halves: dict[bool, list[tuple[str, int]]] = {False: [], True: []}
    for match, file in sorted(found, key=lambda each: (label[each[0].group(1, 2)], each[1])):
        halves[int(match.group(3)) - 1 in tested].append((file, label[match.group(1, 2)]))
    listed = Listing(tuple(name for _, name in names), halves[False], halves[True])
    for count in classes:
        Counts(count, count * (DRAWERS - len(tested)), count * len(tested)).check(source.path, listed)
    return listed

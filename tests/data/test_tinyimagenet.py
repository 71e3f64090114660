"""tinyimagenet: the archive and its folder, the order of the classes, the labels of the validation images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archive_server import serving
from data_samples import refusal
from official_layouts import Files, Memory, as_zip, numbers, published, tiny_imagenet, unpacked

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.data import Dataset, tinyimagenet
from fscil.data.download import Archive
from fscil.data.listing import Counts

WNIDS = ["n05", "n01", "n04", "n02", "n03"]  # as unsorted as the original's
FILES = tiny_imagenet(WNIDS, train=3, test=2)
NAME = "tiny-imagenet-200.zip"
ARCHIVE = as_zip(FILES)
WHOLE = (Counts(classes=5, train=15, test=10),)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FSCIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def read(path: Path | str, archive: Archive | None = None, whole: Sequence[Counts] = WHOLE, **more: Any) -> Dataset:
    settings: dict[str, Any] = {"name": "tinyimagenet", "path": str(path), "image_size": 4} | more
    archive = archive or published(NAME, ARCHIVE)
    return tinyimagenet.load(DataConfig(**settings), Reporter(quiet=True), archive=archive, whole=whole)


def check(dataset: Dataset) -> None:
    order = ["n01", "n03", "n05", "n02", "n04"]  # every second of the sorted ids, then the others
    assert dataset.class_names == tuple(f"word{wnid[-2:]} ({wnid})" for wnid in order)
    firsts = [100 * WNIDS.index(wnid) for wnid in order]
    assert numbers(dataset.train.images) == [first + number for first in firsts for number in range(3)]
    assert dataset.train.labels.tolist() == np.repeat(np.arange(5), 3).tolist()
    for number, label in zip(numbers(dataset.test.images), dataset.test.labels, strict=True):
        assert number // 100 == WNIDS.index(order[label])
        assert number % 100 >= 50  # of the validation set
    assert len(dataset.test) == 10


def test_the_address_and_the_checksum() -> None:
    assert tinyimagenet.ARCHIVE.url == "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
    assert tinyimagenet.ARCHIVE.md5 == "90528d7ca1a48142e341f4ef8d21d0de"


@pytest.mark.parametrize("how", ["archive", "folder of the archive", "unpacked", "folder of the unpacked"])
def test_every_way_to_have_it(tmp_path: Path, how: str) -> None:
    root = unpacked({NAME: ARCHIVE} if "archive" in how else FILES, tmp_path / "data")
    check(read({"archive": root / NAME, "unpacked": root / "tiny-imagenet-200"}.get(how, root)))


def test_a_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving({NAME: ARCHIVE}) as server:
        archive = published(NAME, ARCHIVE, f"{server.url}/torn/{NAME}")
        refusal(lambda: read("", archive), cache / "tinyimagenet", "data.download=true")
        check(read("", archive, download=True))
        assert len(server.asked) >= 3


def test_what_is_not_whole(tmp_path: Path) -> None:
    def without(word: str) -> Files:
        return {name: content for name, content in FILES.items() if word not in name}

    cases = {
        "n03_1.JPEG": "14 training and 10 test images",
        "val_4.JPEG": "val_4.JPEG",
        "words.txt": "words.txt",
        "val_annotations.txt": "val_annotations.txt",
    }
    for number, (word, words) in enumerate(cases.items()):
        folder = unpacked(without(word), tmp_path / str(number))
        refusal(lambda: read(folder), words)  # noqa: B023
    bad = {**FILES, "tiny-imagenet-200/val/val_annotations.txt": b"val_0.JPEG\tn99\t0\n"}
    refusal(lambda: read(unpacked(bad, tmp_path / "bad")), "val_annotations.txt", "'val_0.JPEG")


def test_the_counts_of_the_original() -> None:
    files = tiny_imagenet([f"n{number:08d}" for number in range(200)], train=500, test=50, pixels=False)
    listing = tinyimagenet.listing(Memory(files))
    assert np.bincount([label for _, label in listing.train]).tolist() == [500] * 200
    assert np.bincount([label for _, label in listing.test]).tolist() == [50] * 200
    assert listing.class_names[1] == "word02 (n00000002)"
    assert listing.class_names[100] == "word01 (n00000001)"
    del files["tiny-imagenet-200/train/n00000007/images/n00000007_3.JPEG"]
    refusal(lambda: tinyimagenet.listing(Memory(files)), "99,999 training", "100,000 and 10,000")

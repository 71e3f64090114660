"""miniimagenet: every layout with the published names gives the published split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_samples import refusal
from official_layouts import Memory, as_tar, as_zip, numbers, picture, unpacked

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.data import Benchmark, Dataset, ImageSet, load_dataset, miniimagenet
from fscil.data.listing import Counts
from fscil.data.session_lists import read_published

WNIDS = ("n01532829", "n02089867", "n13133613")
# Per class images 3, 5, 8 and 12; of each, 5 and 12 are for testing.
IMAGES = {f"{wnid}{number:08d}": 20 * place + number for place, wnid in enumerate(WNIDS) for number in (3, 5, 8, 12)}
TESTED = [name for name in IMAGES if int(name[9:]) in (5, 12)]
WHOLE = (Counts(classes=3, train=6, test=6),)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSCIL_CACHE", str(tmp_path / "cache"))


def half(name: str) -> str:
    return "test" if name in TESTED else "train"


def table(which: str) -> bytes:
    rows = [f"{name}.jpg,{name[:9]}" for name in IMAGES if half(name) == which]
    return "\n".join(["filename,label", *rows]).encode()


PICTURES = {name: picture(number) for name, number in IMAGES.items()}
LAYOUTS = {
    "images and split": {f"images/{name}.jpg": content for name, content in PICTURES.items()}
    | {f"split/{which}.csv": table(which) for which in ("train", "test")},
    "train and test": {f"MINI-ImageNet/{half(name)}/{name[:9]}/{name}.jpg": c for name, c in PICTURES.items()},
    "a folder per class": {f"{name[:9]}/{name}.jpg": content for name, content in PICTURES.items()},
    "classes of few-shot learning": {
        f"{which}/{name[:9]}/{name}.jpg": content
        for which, wnid in zip(("train", "val", "test"), WNIDS, strict=True)
        for name, content in PICTURES.items()
        if name.startswith(wnid)
    },
    "another format": {f"images/{name}.jpg.webp": content for name, content in PICTURES.items()},
}


def read(path: Path, whole: Sequence[Counts] = WHOLE, **changes: Any) -> Dataset:
    settings: dict[str, Any] = {"name": "miniimagenet", "path": str(path), "image_size": 4} | changes
    return miniimagenet.load(DataConfig(**settings), Reporter(quiet=True), test_names=TESTED, whole=whole)


def check(dataset: Dataset) -> None:
    assert dataset.class_names == WNIDS
    assert numbers(dataset.train.images) == [3, 8, 23, 28, 43, 48]
    assert numbers(dataset.test.images) == [5, 12, 25, 32, 45, 52]
    assert dataset.train.labels.tolist() == dataset.test.labels.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same(tmp_path: Path, layout: str) -> None:
    check(read(unpacked(LAYOUTS[layout], tmp_path / "mini")))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"miniimagenet.{kind}"
    files = {f"miniimagenet/{name}": content for name, content in LAYOUTS["images and split"].items()}
    path.write_bytes(as_tar(files, "w") if kind == "tar" else as_zip(files))
    check(read(path))


def test_a_copy_in_a_second_folder_counts_once(tmp_path: Path) -> None:
    check(read(unpacked(LAYOUTS["images and split"] | LAYOUTS["train and test"], tmp_path / "mini")))


def test_what_is_not_there(tmp_path: Path) -> None:
    files = dict(LAYOUTS["a folder per class"])
    files.popitem()
    refusal(lambda: read(unpacked(files, tmp_path / "part")), tmp_path / "part", "6 training and 5 test", "6 and 6")
    named = {f"dog/{n}.jpg": content for n, content in enumerate(PICTURES.values())}
    refusal(lambda: read(unpacked(named, tmp_path / "named")), "no image with a name such as", "data.name=folder")
    refusal(lambda: read(tmp_path / "no"), tmp_path / "no", "does not exist")
    refusal(lambda: read(tmp_path, download=True), "no address", "data.path")
    refusal(lambda: load_dataset(DataConfig(name="miniimagenet")), "miniimagenet needs data.path")


def test_the_published_split_in_full() -> None:
    """60,000 names: those of the published lists, and others up to 600 a class."""
    published = read_published("miniimagenet")
    shots: dict[str, list[str]] = {}
    for name in (name.removesuffix(".jpg") for session in published["sessions"] for name in session):
        shots.setdefault(name[:9], []).append(name)
    files: dict[str, bytes] = {}
    for wnid, tested in published["test"].items():
        taken = {f"{wnid}{number:08d}" for number in tested} | set(shots.get(wnid, ()))
        others = (f"{wnid}{number:08d}" for number in range(1, 1300) if f"{wnid}{number:08d}" not in taken)
        names = sorted([*taken, *(next(others) for _ in range(600 - len(taken)))])
        files |= {f"images/{name}.jpg": b"" for name in names}
    listing = miniimagenet.listing(Memory(files), miniimagenet.published_test())
    assert listing.class_names == tuple(sorted(published["test"]))
    assert np.bincount([label for _, label in listing.train]).tolist() == [500] * 100
    assert np.bincount([label for _, label in listing.test]).tolist() == [100] * 100
    halves = []
    for labelled in (listing.train, listing.test):
        images = np.zeros((len(labelled), 1, 1, 3), dtype=np.uint8)
        halves.append(ImageSet(images, np.array([label for _, label in labelled]), [name for name, _ in labelled]))
    dataset = Dataset("miniimagenet", halves[0], halves[1], listing.class_names)
    benchmark = Benchmark(dataset, DataConfig(name="miniimagenet", shots="published"))
    assert benchmark.classes == (60, *[5] * 8)
    assert len(benchmark.session(0)) == 30_000
    assert [len(benchmark.exam(index).labels) for index in range(9)] == [6000, *[500] * 8]
    files.popitem()
    refusal(lambda: miniimagenet.listing(Memory(files), miniimagenet.published_test()), "50,000 and 10,000")

"""omniglot: two archives, alphabets in order, and people who are either for training or for testing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archive_server import serving
from data_samples import refusal
from official_layouts import Memory, as_zip, numbers, omniglot, published, unpacked

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.data import Dataset
from fscil.data import omniglot as loader
from fscil.data.download import Archive

CHARACTERS = {
    "background": ["Greek/character01", "Greek/character02", "Futurama/character01"],
    "evaluation": ["Angelic/character01", "Tengwar/character01"],
}
PARTS = omniglot(CHARACTERS)
ARCHIVES = {f"images_{kind}.zip": as_zip(files) for kind, files in PARTS.items()}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FSCIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def archives(url: str = "http://127.0.0.1:9") -> tuple[Archive, Archive]:
    first, second = (published(name, content, f"{url}/{name}") for name, content in ARCHIVES.items())
    return first, second


def read(path: Path | str, url: str = "http://127.0.0.1:9", **changes: Any) -> Dataset:
    settings: dict[str, Any] = {"name": "omniglot", "path": str(path), "image_size": 4} | changes
    return loader.load(DataConfig(**settings), Reporter(quiet=True), archives=archives(url), classes=(3, 5))


# Background before evaluation, each in alphabetical order; and the number of each as `omniglot` counted them.
ORDER = {
    "Futurama/character01": 2,
    "Greek/character01": 0,
    "Greek/character02": 1,
    "Angelic/character01": 3,
    "Tengwar/character01": 4,
}


def check(dataset: Dataset, tested: int = 6) -> set[int]:
    assert dataset.class_names == tuple(ORDER)
    drawers: dict[str, set[int]] = {"train": set(), "test": set()}
    for half, part in (("train", dataset.train), ("test", dataset.test)):
        assert np.bincount(part.labels).tolist() == [tested if half == "test" else 20 - tested] * 5
        for number, label in zip(numbers(part.images), part.labels, strict=True):
            assert number // 20 == list(ORDER.values())[label]
            drawers[half].add(number % 20)
    assert not drawers["train"] & drawers["test"]
    return drawers["test"]


def test_the_addresses_and_checksums_are_torchvisions() -> None:
    from torchvision.datasets import Omniglot

    for archive, (name, md5) in zip(loader.ARCHIVES, Omniglot.zips_md5.items(), strict=True):
        assert (archive.url, archive.md5) == (f"{Omniglot.download_url_prefix}/{name}.zip", md5)


@pytest.mark.parametrize("folder", ["", "omniglot-py"])
@pytest.mark.parametrize("packed", [True, False])
def test_every_way_to_have_it(tmp_path: Path, folder: str, packed: bool) -> None:
    files = ARCHIVES if packed else {name: content for part in PARTS.values() for name, content in part.items()}
    unpacked(files, tmp_path / "data" / folder)
    check(read(tmp_path / "data"))


def test_people_are_split_by_share_and_seed(tmp_path: Path) -> None:
    unpacked(ARCHIVES, tmp_path / "data")
    one = check(read(tmp_path / "data"))
    assert check(read(tmp_path / "data")) == one
    assert check(read(tmp_path / "data", split_seed=1)) != one
    check(read(tmp_path / "data", test_fraction=0.5), tested=10)


def test_a_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(ARCHIVES) as server:
        url = f"{server.url}/whole"
        refusal(lambda: read("", url), cache / "omniglot", "images_background.zip", "data.download=true", url)
        check(read("", url, download=True))
        check(read("", url))
        assert len(server.asked) == 2
    (cache / "omniglot" / "images_evaluation.zip").write_bytes(b"bent")
    refusal(lambda: read(""), "images_evaluation.zip", "checksum")


def test_a_drawing_is_missing(tmp_path: Path) -> None:
    files = {name: content for part in PARTS.values() for name, content in part.items()}
    files.popitem()
    refusal(lambda: read(unpacked(files, tmp_path / "data")), tmp_path / "data", "first 5 of 5 classes")


def test_the_counts_of_the_original() -> None:
    """964 characters of 30 alphabets and 659 of 20, twenty drawings each."""
    made = {
        kind: [
            f"Alphabet{a:02d}/character{c + 1:02d}"
            for a in range(alphabets)
            for c in range(most)
            if a * most + c < count
        ]
        for kind, alphabets, most, count in (("background", 30, 33, 964), ("evaluation", 20, 33, 659))
    }
    files = {name: content for part in omniglot(made, pixels=False).values() for name, content in part.items()}
    listing = loader.listing(Memory(files), DataConfig(name="omniglot"))
    assert len(listing.class_names) == 1623
    assert (len(listing.train), len(listing.test)) == (22_722, 9_738)

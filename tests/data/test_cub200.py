"""cub200: the archive, its folder and its lists; the counts of the original, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archive_server import serving
from data_samples import refusal
from official_layouts import Files, Memory, as_tar, cub, numbers, published, unpacked

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.data import Benchmark, Dataset, ImageSet, cub200
from fscil.data.download import Archive
from fscil.data.listing import Counts
from fscil.data.session_lists import read_published

KINDS = {"001.Ape": (3, 2), "002.Bat": (2, 3), "003.Cat": (2, 1), "004.Dog": (2, 4)}
FILES, TRAIN, TEST = cub(KINDS)
WHOLE = (Counts(classes=4, train=9, test=10), Counts(classes=2, train=5, test=5))
ARCHIVE = as_tar(FILES)
NAME = "CUB_200_2011.tgz"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FSCIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def read(path: Path | str, archive: Archive | None = None, whole: Sequence[Counts] = WHOLE, **changes: Any) -> Dataset:
    settings: dict[str, Any] = {"name": "cub200", "path": str(path), "image_size": 4} | changes
    archive = archive or published(NAME, ARCHIVE)
    return cub200.load(DataConfig(**settings), Reporter(quiet=True), archive=archive, whole=whole)


def check(dataset: Dataset) -> None:
    assert dataset.name == "cub200"
    assert dataset.class_names == tuple(KINDS)
    assert numbers(dataset.train.images) == TRAIN
    assert numbers(dataset.test.images) == TEST
    assert np.bincount(dataset.train.labels).tolist() == [train for train, _ in KINDS.values()]
    assert np.bincount(dataset.test.labels).tolist() == [test for _, test in KINDS.values()]
    assert dataset.train.names[0].endswith("images/001.Ape/Ape_0000_1001.jpg")


def test_the_address_and_the_checksum() -> None:
    """As CaltechDATA names them (record 65de6-vp158, CUB_200_2011.tgz, 1,150,585,339 bytes)."""
    assert cub200.ARCHIVE.url == "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz"
    assert cub200.ARCHIVE.md5 == "97eceeb196236b17998738112f37df78"


@pytest.mark.parametrize("how", ["archive", "folder of the archive", "unpacked", "folder of the unpacked"])
def test_every_way_to_have_it(tmp_path: Path, how: str) -> None:
    root = tmp_path / "data"
    if "archive" in how:
        unpacked({NAME: ARCHIVE}, root)
    else:
        unpacked(FILES, root)
    path = {"archive": root / NAME, "unpacked": root / "CUB_200_2011"}.get(how, root)
    before = sorted(root.rglob("*"))
    check(read(path))
    assert sorted(root.rglob("*")) == before  # nothing is unpacked or written there


def test_archive_and_folder_are_the_same_data(tmp_path: Path) -> None:
    unpacked({NAME: ARCHIVE}, tmp_path / "packed")
    unpacked(FILES, tmp_path / "unpacked")
    assert read(tmp_path / "packed").identity == read(tmp_path / "unpacked").identity


def test_a_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving({NAME: ARCHIVE}) as server:
        archive = published(NAME, ARCHIVE, f"{server.url}/whole/{NAME}")
        refusal(lambda: read("", archive), cache / "cub200", "CUB_200_2011", "data.download=true", archive.url)
        check(read("", archive, download=True))
        assert (cache / "cub200" / NAME).read_bytes() == ARCHIVE
        check(read("", archive))
        assert len(server.asked) == 1


def test_another_archive_of_that_name(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(ARCHIVE[:-20])
    refusal(lambda: read(tmp_path), tmp_path / NAME, "damaged", "checksum", "data.download=true")


def test_another_split_is_refused(tmp_path: Path) -> None:
    """As many images in the base session, but drawn by somebody else: the mistake of some papers."""
    files = dict(FILES)
    lines = files["CUB_200_2011/train_test_split.txt"].decode().splitlines()
    files["CUB_200_2011/train_test_split.txt"] = "\n".join(["1 0", *lines[1:]]).encode()
    unpacked(files, tmp_path / "data")
    refusal(lambda: read(tmp_path / "data"), tmp_path / "data", "8 training and 11 test images", "should have 9 and 10")


def changed(name: str, text: str) -> Files:
    return {**FILES, f"CUB_200_2011/{name}.txt": text.encode()}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (changed("images", "1 a b\n"), "images.txt is not a list of numbers"),
        (changed("classes", "one 001.Ape\n"), "classes.txt is not a list of numbers"),
        (changed("train_test_split", "1 1\n"), "the lists name different images"),
        (
            changed("image_class_labels", "".join(f"{n} 9\n" for n in range(1, 20))),
            "image 1 has the split '1' and the class '9'",
        ),
        ({name: content for name, content in FILES.items() if "classes.txt" not in name}, "classes.txt"),
        ({name: content for name, content in FILES.items() if "Bat_0001" not in name}, "Bat_0001"),
    ],
)
def test_lists_that_are_not_whole(tmp_path: Path, files: Files, words: str) -> None:
    unpacked(files, tmp_path / "data")
    refusal(lambda: read(tmp_path / "data"), words, "again")


def original() -> tuple[Files, list[str]]:
    """The original's 11,788 names and counts, those of the published lists among them; and the names of the classes."""
    sessions = read_published("cub200")["sessions"]
    shown: dict[str, list[str]] = {}
    for name in (name for session in sessions for name in session):
        shown.setdefault(name.partition("/")[0], []).append(name.partition("/")[2])
    kinds = {f"{label:03d}.Base_{label}": (30, 28 + (label <= 64)) for label in range(1, 101)}
    kinds |= {name: (30 - (label < 6), 29 + (label < 30)) for label, name in enumerate(shown)}
    files, *_ = cub(kinds, pixels=False)
    # The first five training images of a new class are given the published names.
    listed = files["CUB_200_2011/images.txt"].decode().splitlines()
    flags = [line.split()[1] for line in files["CUB_200_2011/train_test_split.txt"].decode().splitlines()]
    for row, line in enumerate(listed):
        number, name = line.split()
        kind = name.partition("/")[0]
        if flags[row] == "1" and shown.get(kind):
            listed[row] = f"{number} {kind}/{shown[kind].pop()}"
    files["CUB_200_2011/images.txt"] = "\n".join(listed).encode()
    return files, list(kinds)


def test_the_original_counts_and_the_published_sessions() -> None:
    files, kinds = original()
    listing = cub200.listing(Memory(files))
    assert (len(listing.train), len(listing.test)) == (5994, 5794)
    halves = []
    for labelled in (listing.train, listing.test):
        labels = np.array([label for _, label in labelled])
        pixels = np.arange(len(labels), dtype=">u4").view(np.uint8).reshape(-1, 1, 4, 1).repeat(3, axis=3)
        halves.append(ImageSet(pixels, labels, [name for name, _ in labelled]))
    dataset = Dataset("cub200", halves[0], halves[1], tuple(kinds))
    benchmark = Benchmark(dataset, DataConfig(name="cub200", base=100, way=10, shots="published"))
    assert benchmark.classes == (100, *[10] * 10)
    assert len(benchmark.session(0)) == 3000
    assert len(benchmark.exam(0).labels) == 2864
    for index, names in enumerate(read_published("cub200")["sessions"], start=1):
        session = benchmark.session(index)
        assert session.images is not None
        rows = np.ascontiguousarray(session.images.numpy()[:, 0, :, 0]).view(">u4")[:, 0]
        found = {dataset.train.names[row].removeprefix("CUB_200_2011/images/") for row in rows}
        assert found == set(names)


def test_the_split_of_the_papers_that_mistook_it() -> None:
    files, _ = original()
    flags = [line.split() for line in files["CUB_200_2011/train_test_split.txt"].decode().splitlines()]
    labels = [int(line.split()[1]) for line in files["CUB_200_2011/image_class_labels.txt"].decode().splitlines()]
    base = [row for row, label in enumerate(labels) if label <= 100]
    assert len(base) == 5864
    for place, row in enumerate(base):
        flags[row][1] = "1" if place < 4693 else "0"
    files["CUB_200_2011/train_test_split.txt"] = "\n".join(" ".join(flag) for flag in flags).encode()
    whole = [counts for counts in cub200.WHOLE if counts.classes == 100]
    refusal(lambda: cub200.listing(Memory(files), whole), "4,693 training and 1,171 test", "3,000 and 2,864")
    refusal(lambda: cub200.listing(Memory(files)), "should have 5,994 and 5,794")

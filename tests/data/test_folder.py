"""folder: classes, order, splits, and a sentence for every unfit folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_samples import refusal
from PIL import Image

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.data import Benchmark, Dataset, folder, load_dataset


def read(path: Path, **changes: Any) -> Dataset:
    settings: dict[str, Any] = {"name": "folder", "path": str(path), "image_size": 8}
    return load_dataset(DataConfig(**(settings | changes)))


def paint(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, value, value)).save(path)
    return path


@pytest.fixture
def one_folder(tmp_path: Path) -> Path:
    """Ten images of each of three classes; an image's grey value is its number."""
    root = tmp_path / "pets"
    for c, name in enumerate(("bird10", "bird2", "Ape")):
        for number in range(10):
            paint(root / name / f"{number}.png", 20 * c + number)
    return root


@pytest.fixture
def two_folders(tmp_path: Path) -> Path:
    root = tmp_path / "pets"
    for half, count in (("train", 3), ("test", 2)):
        for c, name in enumerate(("cat", "dog")):
            for number in range(count):
                paint(root / half / name / f"{number}.png", 100 * (half == "test") + 10 * c + number)
    return root


def test_train_and_test_folders(two_folders: Path) -> None:
    dataset = read(two_folders)
    assert dataset.name == "pets"
    assert dataset.class_names == ("cat", "dog")
    assert dataset.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 10, 11, 12]
    assert dataset.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.test.images[:, 0, 0, 0].tolist() == [100, 101, 110, 111]
    assert dataset.test.labels.tolist() == [0, 0, 1, 1]


def test_one_folder_is_split_by_seed(one_folder: Path) -> None:
    dataset = read(one_folder)
    assert dataset.class_names == ("Ape", "bird2", "bird10")  # natural order
    train, test = (half.images[:, 0, 0, 0].tolist() for half in (dataset.train, dataset.test))
    assert sorted(train + test) == [20 * c + number for c in range(3) for number in range(10)]
    assert np.bincount(dataset.test.labels).tolist() == [3, 3, 3]
    assert np.array_equal(read(one_folder).train.images, dataset.train.images)
    assert not np.array_equal(read(one_folder, split_seed=1).test.images, dataset.test.images)
    assert np.bincount(read(one_folder, test_fraction=0.5).test.labels).tolist() == [5, 5, 5]


def test_another_class_leaves_the_split_of_the_rest(one_folder: Path) -> None:
    before = read(one_folder).test.images[:, 0, 0, 0].tolist()
    for number in range(4):
        paint(one_folder / "bird1" / f"{number}.png", 200 + number)
    after = read(one_folder).test.images[:, 0, 0, 0].tolist()
    assert [value for value in after if value < 200] == before


def test_files_in_natural_order(tmp_path: Path) -> None:
    for half in ("train", "test"):
        for number in (10, 9, 100, 1):
            paint(tmp_path / half / "cat" / f"photo{number}.PNG", number)
    assert read(tmp_path).train.images[:, 0, 0, 0].tolist() == [1, 9, 10, 100]


def test_hidden_and_other_files_are_passed_over(two_folders: Path) -> None:
    (two_folders / "train" / ".DS_Store").write_text("")
    (two_folders / "train" / "notes.txt").write_text("")
    (two_folders / "train" / "cat" / "notes.txt").write_text("")
    (two_folders / "train" / "cat" / "._0.png").write_bytes(b"resource fork")
    (two_folders / "train" / ".git").mkdir()
    paint(two_folders / "val" / "cow" / "0.png")
    assert len(read(two_folders).train) == 6


def test_images_are_resized(two_folders: Path) -> None:
    assert read(two_folders, image_size=0).train.images.shape == (6, 32, 32, 3)
    assert read(two_folders, image_size=5).test.images.shape == (4, 5, 5, 3)
    refusal(lambda: read(two_folders, image_size=-1), "data.image_size must be")


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for name in ("train", "bus"):
        for number in range(3):
            paint(tmp_path / name / f"{number}.png")
    assert read(tmp_path).class_names == ("bus", "train")


def test_no_such_folder(tmp_path: Path) -> None:
    refusal(lambda: load_dataset(DataConfig(name="folder")), "folder needs data.path")
    refusal(lambda: read(tmp_path / "no"), tmp_path / "no", "does not exist", "data.path")
    file = paint(tmp_path / "cat.png")
    refusal(lambda: read(file), file, "is a file, not a folder")


def test_no_images(tmp_path: Path) -> None:
    refusal(lambda: read(tmp_path), tmp_path, "no images in class folders")
    paint(tmp_path / "0.png")
    refusal(lambda: read(tmp_path), tmp_path, "a folder of its own")
    (tmp_path / "cat").mkdir()
    refusal(lambda: read(tmp_path), tmp_path, "no images in class folders")


def test_a_class_without_images(one_folder: Path) -> None:
    (one_folder / "cow").mkdir()
    (one_folder / "cow" / "notes.txt").write_text("")
    (one_folder / "cow" / ".0.png").write_bytes(b"")
    refusal(lambda: read(one_folder), one_folder / "cow", "no image", "png")


def test_an_empty_class_in_one_half(two_folders: Path) -> None:
    (two_folders / "train" / "cow").mkdir()
    (two_folders / "test" / "cow").mkdir()
    refusal(lambda: read(two_folders), two_folders / "train" / "cow", "no image")


@pytest.mark.parametrize(("has", "lacks"), [("train", "test"), ("test", "train")])
def test_halves_with_other_classes(two_folders: Path, has: str, lacks: str) -> None:
    paint(two_folders / has / "cow" / "0.png")
    refusal(lambda: read(two_folders), "Class 'cow'", f"none in {two_folders / lacks}")


def test_one_half_alone(two_folders: Path) -> None:
    (two_folders / "test").rename(two_folders.parent / "elsewhere")
    refusal(lambda: read(two_folders), two_folders, "no test", f"data.path={two_folders / 'train'}")
    assert read(two_folders / "train").class_names == ("cat", "dog")


def test_a_class_with_one_image(one_folder: Path) -> None:
    only = paint(one_folder / "cow" / "only.png")
    refusal(lambda: read(one_folder), "Class 'cow' has one image", only)


def test_a_damaged_image_is_named(two_folders: Path) -> None:
    path = two_folders / "test" / "dog" / "1.png"
    path.write_bytes(path.read_bytes()[:-30])
    refusal(lambda: read(two_folders), path, "damaged")


def test_unfit_split_settings(one_folder: Path) -> None:
    refusal(lambda: read(one_folder, test_fraction=1.5), "data.test_fraction must be")
    refusal(lambda: read(one_folder, split_seed=-3), "data.split_seed must be")


@pytest.mark.parametrize("layout", ["one_folder", "two_folders"])
def test_many_images_are_decoded_once_and_mapped(
    layout: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same data set, to the last byte, and named the same: a network trained before still fits."""
    monkeypatch.setenv("FSCIL_CACHE", str(tmp_path / "cache"))
    root = request.getfixturevalue(layout)
    fresh = read(root)
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(folder, "KEPT_FROM", 5)
    for kept in (read(root), read(root)):
        assert (kept.name, kept.class_names, kept.identity) == (fresh.name, fresh.class_names, "")
        for one, other in ((kept.train, fresh.train), (kept.test, fresh.test)):
            assert np.array_equal(one.images, other.images)
            assert np.array_equal(one.labels, other.labels)
            assert list(one.names) == list(other.names)
        cut = DataConfig(name="folder", base=2, way=1, shot=1) if len(kept.class_names) > 2 else None
        if cut:
            assert Benchmark(kept, cut).fingerprint() == Benchmark(fresh, cut).fingerprint()
    assert len(list((tmp_path / "cache" / "decoded").glob("folder-8-*.npy"))) == 1
    said: list[str] = []
    reporter = Reporter(quiet=True)
    monkeypatch.setattr(reporter, "say", said.append)
    config = DataConfig(name="folder", path=str(root), image_size=8, split_seed=4)
    other_split = load_dataset(config, reporter)
    assert bool(said)  # decoded again: the halves are others, or may be
    monkeypatch.setattr(folder, "KEPT_FROM", 10**6)
    assert np.array_equal(other_split.test.images, load_dataset(config).test.images)

"""npz: one file of arrays, and a sentence for every way it can be broken."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_samples import numbered_set, refusal

from fscil.core.config import DataConfig
from fscil.data import Dataset, load_dataset

TRAIN, TEST = numbered_set(3, 4), numbered_set(3, 2, first=500)


def arrays(**changes: Any) -> dict[str, Any]:
    sound = {
        "train_images": TRAIN.images,
        "train_labels": TRAIN.labels,
        "test_images": TEST.images,
        "test_labels": TEST.labels,
        "class_names": np.array(["cat", "dog", "Ωmega"]),
    }
    return {name: value for name, value in (sound | changes).items() if value is not None}


def read(path: Path) -> Dataset:
    return load_dataset(DataConfig(name="npz", path=str(path)))


def saved(folder: Path, **changes: Any) -> Path:
    path = folder / "mine.npz"
    np.savez(path, **arrays(**changes))
    return path


def test_a_sound_file(tmp_path: Path) -> None:
    dataset = read(saved(tmp_path))
    assert dataset.name == "mine"
    assert dataset.class_names == ("cat", "dog", "Ωmega")
    assert np.array_equal(dataset.train.images, TRAIN.images)
    assert np.array_equal(dataset.test.labels, TEST.labels)


def test_byte_names_and_small_labels(tmp_path: Path) -> None:
    names = np.array([b"cat", b"dog", "Ωmega".encode()])
    dataset = read(saved(tmp_path, class_names=names, train_labels=TRAIN.labels.astype(np.uint8)))
    assert dataset.class_names == ("cat", "dog", "Ωmega")
    assert dataset.train.labels.dtype == np.int64


@pytest.mark.parametrize("name", ["train_images", "train_labels", "test_images", "test_labels", "class_names"])
def test_a_missing_array(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, **{name: None})
    refusal(lambda: read(path), path, f"no array '{name}'")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train_images": (TRAIN.images / 255).astype(np.float32)}, ("train_images", "float32", "astype('uint8')")),
        ({"test_images": TEST.images[..., 0]}, ("test_images", "(6, 8, 8)", "np.repeat")),
        ({"test_labels": TEST.labels[:-1]}, ("test_labels", "(5,)", "6 images")),
        ({"train_labels": TRAIN.labels * 2}, ("train_labels", "from 0 to 4", "3 class_names")),
        ({"train_labels": TRAIN.labels // 2 * 2}, ("class 'dog' (label 1)", "train_labels", "gap")),
        ({"train_labels": TRAIN.labels.astype(float)}, ("train_labels", "float64")),
        ({"class_names": np.array(["cat", "dog", "cat"])}, ("class_names", "'cat'", "unique")),
        ({"class_names": np.array([b"cat", b"dog", b"\xff\xfe"])}, ("class_names", "UTF-8")),
        ({"class_names": np.array([1, 2, 3])}, ("class_names", "int64", "text")),
        ({"class_names": np.array("cat")}, ("class_names", "shape ()", "text")),
        ({"class_names": np.array(["cat", None, "dog"], dtype=object)}, ("'class_names'", "Python objects", "text")),
        ({"train_images": np.array([None, 1], dtype=object)}, ("'train_images'", "Python objects", "safety")),
    ],
)
def test_unfit_arrays(tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...]) -> None:
    path = saved(tmp_path, **changes)
    refusal(lambda: read(path), path, *words)


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    refusal(lambda: read(path), path, "does not exist", "data.path")
    refusal(lambda: read(tmp_path), tmp_path, "is a folder", "data.name=folder")
    refusal(lambda: load_dataset(DataConfig(name="npz")), "npz needs data.path", "train_images")
    for content in (b"", b"hello", pickle.dumps({"train_images": 1}), b"PK\x03\x04 and then nothing"):
        path.write_bytes(content)
        refusal(lambda: read(path), path, "not an .npz file", "numpy.savez")
    with path.open("wb") as file:
        np.save(file, TRAIN.images)
    refusal(lambda: read(path), path, "not an .npz file")
    with zipfile.ZipFile(path, "w") as archive:
        for name in arrays():
            archive.writestr(name, "text")
    refusal(lambda: read(path), path, "'train_images' is not a numpy array")


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, **arrays())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refusal(lambda: read(path), path, "not an .npz file")
    bent = bytearray(whole)
    bent[300:310] = bytes(10)
    path.write_bytes(bent)
    refusal(lambda: read(path), path, "array 'train_images' is damaged")

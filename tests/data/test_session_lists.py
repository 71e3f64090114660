"""The published session lists: rows of the training images, checked against the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_samples import numbered_dataset, numbers, refusal

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Dataset, cifar100, load_benchmark
from fscil.data.cifar100 import session_lists

DATASET = numbered_dataset(classes=14, train=9)  # 6 base classes, 4 sessions of 2-way 3-shot


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """A folder as published: session 1 is the base, later ones hold the last shots of their classes."""
    labels = DATASET.train.labels
    write(tmp_path / "session_1.txt", np.flatnonzero(labels < 6))
    for session in range(4):
        rows = [np.flatnonzero(labels == 6 + 2 * session + c)[-3:] for c in range(2)]
        write(tmp_path / f"session_{session + 2}.txt", np.concatenate(rows)[::-1])
    return tmp_path


def write(path: Path, rows: Any) -> None:
    path.write_text("".join(f"{row}\n" for row in rows))


def config(lists: Path, **changes: Any) -> DataConfig:
    settings: dict[str, Any] = {"name": "cifar100", "base": 6, "way": 2, "shot": 3, "session_lists": str(lists)}
    return DataConfig(**(settings | changes))


def read(lists: Path, **changes: Any) -> list[np.ndarray]:
    return session_lists(config(lists, **changes), DATASET)


def test_sessions_hold_the_listed_images(lists: Path) -> None:
    found = read(lists)
    assert [len(rows) for rows in found] == [6, 6, 6, 6]
    benchmark = Benchmark(DATASET, config(lists), shot_lists=found)
    for index in range(1, 5):
        session = benchmark.session(index)
        published = np.loadtxt(lists / f"session_{index + 1}.txt", dtype=int)
        assert sorted(numbers(session.images)) == sorted(published)  # an image carries its row
        assert session.labels.tolist() == np.repeat(benchmark.class_range(index), 3).tolist()
    assert len(benchmark.session(0)) == 54


def test_the_registry_uses_them(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(_: DataConfig) -> Dataset:
        return DATASET

    monkeypatch.setattr(cifar100, "load", loaded)
    one, other = load_benchmark(config(lists), shots_seed=0), load_benchmark(config(lists), shots_seed=1)
    assert np.array_equal(numbers(one.session(2).images), numbers(other.session(2).images))
    assert np.array_equal(numbers(one.draw(5).session(2).images), numbers(other.session(2).images))
    refusal(lambda: load_benchmark(config(lists, way=0)), "data.way must be")
    refusal(lambda: load_benchmark(config(lists, name="digits")), "data.session_lists", "digits")


def test_fewer_sessions_and_no_base_list(lists: Path) -> None:
    (lists / "session_1.txt").unlink()
    (lists / "session_5.txt").unlink()
    assert len(read(lists, sessions=3)) == 3
    refusal(lambda: read(lists), lists / "session_5.txt", "does not exist")


def test_blank_lines_and_windows_line_ends(lists: Path) -> None:
    path = lists / "session_2.txt"
    before = read(lists)[0]
    path.write_bytes(b"\r\n".join(path.read_bytes().split()) + b"\r\n\r\n")
    assert np.array_equal(read(lists)[0], before)


def test_another_class_order(lists: Path) -> None:
    refusal(lambda: read(lists, order_seed=3), "data.order_seed=-1", "natural class order")


def test_a_missing_folder(tmp_path: Path) -> None:
    refusal(lambda: read(tmp_path / "no"), tmp_path / "no" / "session_2.txt", "data.session_lists")


def test_unreadable_lists(lists: Path) -> None:
    path = lists / "session_3.txt"
    path.write_bytes(b"\xff\xfe12")
    refusal(lambda: read(lists), path, "cannot be read as text")
    path.unlink()
    path.mkdir()
    refusal(lambda: read(lists), path, "cannot be read as text")


@pytest.mark.parametrize("line", ["MINI/images/n01.jpg", "1.5", "-3", "²"])
def test_a_line_that_is_no_row(lists: Path, line: str) -> None:
    path = lists / "session_2.txt"
    path.write_text(f"3\n{line}\n", encoding="utf-8")
    refusal(lambda: read(lists), path, "line 2", f"'{line}'", "whole number")


def changed(path: Path, at: int, row: int) -> None:
    rows = path.read_text().split()
    rows[at] = str(row)
    write(path, rows)


def test_rows_that_do_not_fit(lists: Path) -> None:
    path = lists / "session_3.txt"
    sound = path.read_text().split()
    changed(path, 0, len(DATASET.train))
    refusal(lambda: read(lists), path, f"image {len(DATASET.train)}", f"0 to {len(DATASET.train) - 1}")
    write(path, [*sound[:-1], sound[0]])
    refusal(lambda: read(lists), path, f"image {sound[0]} twice")
    write(path, sound[:-1])
    refusal(lambda: read(lists), path, "lists 5 images, not 6", "2 classes of 3")
    write(path, [*sound[:-1], "0"])
    refusal(lambda: read(lists), path, "image 0 of class 'class0' (label 0)", "classes 8 to 9")
    write(path, [*sound[:-1], str(next(r for r in np.flatnonzero(DATASET.train.labels == 9) if str(r) not in sound))])
    refusal(lambda: read(lists), path, "2 images of class 'class8', not 3")


def test_settings_that_do_not_fit(lists: Path) -> None:
    (lists / "session_1.txt").unlink()
    refusal(lambda: read(lists, shot=4), lists / "session_2.txt", "lists 6 images, not 8")
    refusal(lambda: read(lists, base=4), lists / "session_2.txt", "classes 4 to 5")


def test_a_base_list_of_other_images(lists: Path) -> None:
    rows = (lists / "session_1.txt").read_text().split()
    write(lists / "session_1.txt", rows[:-1])
    refusal(lambda: read(lists), lists / "session_1.txt", "54 training images", "first 6 classes")


def test_lists_handed_to_the_benchmark_are_counted_too(lists: Path) -> None:
    found = read(lists)
    refusal(lambda: Benchmark(DATASET, config(lists), shot_lists=found[:2]), "2 session lists for 4 sessions")
    found[1] = found[0]
    refusal(lambda: Benchmark(DATASET, config(lists), shot_lists=found), "0 images of class 'class8'")

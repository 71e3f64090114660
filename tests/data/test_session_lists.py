"""Lists of sessions: names of training images, checked against the protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_samples import numbered_dataset, numbers, refusal

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Dataset, cifar100, load_benchmark
from fscil.data.session_lists import session_lists, stem

PLAIN = numbered_dataset(classes=14, train=9)  # 6 base classes, 4 sessions of 2-way 3-shot
NAMES = tuple(str(row) for row in range(len(PLAIN.train)))
DATASET = replace(PLAIN, train=replace(PLAIN.train, names=NAMES))


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
    found = session_lists(config(lists, **changes), DATASET)
    assert found is not None
    return found


def test_sessions_hold_the_listed_images(lists: Path) -> None:
    found = read(lists)
    assert [len(rows) for rows in found] == [6, 6, 6, 6]
    benchmark = Benchmark(DATASET, config(lists))
    for index in range(1, 5):
        session = benchmark.session(index)
        published = np.loadtxt(lists / f"session_{index + 1}.txt", dtype=int)
        assert sorted(numbers(session.images)) == sorted(published)  # an image carries its row
        assert session.labels.tolist() == np.repeat(benchmark.class_range(index), 3).tolist()
    assert len(benchmark.session(0)) == 54


def test_the_registry_uses_them(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: object) -> Dataset:
        return DATASET

    monkeypatch.setattr(cifar100, "load", loaded)
    one, other = load_benchmark(config(lists), shots_seed=0), load_benchmark(config(lists), shots_seed=1)
    assert np.array_equal(numbers(one.session(2).images), numbers(other.session(2).images))
    assert np.array_equal(numbers(one.draw(5).session(2).images), numbers(other.session(2).images))
    refusal(lambda: load_benchmark(config(lists, way=0)), "data.way must be")
    refusal(lambda: load_benchmark(config(lists, name="digits")), "digits does not say which", "data.session_lists")


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


@pytest.mark.parametrize("line", ["MINI/images/n01.jpg", "1.5", "-3", "²", "126"])
def test_a_line_that_is_no_image(lists: Path, line: str) -> None:
    path = lists / "session_2.txt"
    path.write_text(f"3\n{line}\n", encoding="utf-8")
    refusal(lambda: read(lists), path, f"'{line}'", "no training image of numbered", "called 0 and so on")


def test_rows_that_do_not_fit(lists: Path) -> None:
    path = lists / "session_3.txt"
    sound = path.read_text().split()
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


def named(names: list[str]) -> Dataset:
    return replace(PLAIN, train=replace(PLAIN.train, names=names))


def test_file_names_go_by_their_stem(lists: Path) -> None:
    """As the published lists name them, in another folder and another format than they lie here."""
    files = [f"images/{label:03d}.kind/bird_{row}.jpg.webp" for row, label in enumerate(PLAIN.train.labels)]
    expected = read(lists)
    for path in lists.iterdir():
        write(path, [f"CUB_200_2011/images/x/bird_{row}.jpg" for row in path.read_text().split()])
    found = session_lists(config(lists), named(files))
    assert found is not None
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_names_that_several_classes_have_go_by_their_folder(lists: Path) -> None:
    files = [f"{label}/{row // 14}.png" for row, label in enumerate(PLAIN.train.labels)]  # 0.png in every class
    expected = read(lists)
    for path in lists.iterdir():
        write(path, [files[int(row)] for row in path.read_text().split()])
    found = session_lists(config(lists), named(files))
    assert found is not None
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    write(lists / "session_2.txt", ["3.png"])  # of whom?
    refusal(lambda: session_lists(config(lists), named(files)), lists / "session_2.txt", "'3.png'")


def test_stems() -> None:
    assert stem("a/b/White_Pelican_0081_96148.jpg.webp") == "White_Pelican_0081_96148"
    assert stem("n01443537_0.JPEG") == "n01443537_0"
    assert stem("29774") == "29774"
    assert stem("1.5") == "1.5"  # an ending of no image


def test_nobody_knows_the_names(lists: Path) -> None:
    refusal(lambda: session_lists(config(lists), PLAIN), "numbered does not say which images", "data.session_lists")
    refusal(lambda: session_lists(config(lists, shots="stored"), DATASET), "both choose", "data.shots=stored")
    assert session_lists(config(lists, session_lists=""), PLAIN) is None

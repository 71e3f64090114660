"""Many pictures at once: from a folder of class folders, in parts where a class has too many, written by threads."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from teach_samples import NOVEL, characters, encoded

from fscil.cli import main as cli
from fscil.core.errors import InputError
from fscil.teach import Learner, folders
from fscil.teach.project import making, transaction
from fscil.teach.project.inspection import FILE
from fscil.teach.upkeep import check

A, B = NOVEL[:2]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for character, count in ((A, 5), (B, 2)):
        (tmp_path / "photos" / character).mkdir(parents=True)
        for number, image in enumerate(characters(character, count)):
            (tmp_path / "photos" / character / f"{number}.png").write_bytes(encoded(image))
    return tmp_path / "photos"


def test_a_class_with_too_many_images_is_learned_in_parts(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_IMAGES_AT_ONCE", 2)
    told: list[tuple[int, int]] = []
    learned = Learner.create_from(tmp_path / "p", photos, tell=lambda done, total: told.append((done, total)))
    assert [(part.name, part.added) for part in learned] == [(A, 2), (A, 2), (A, 1), (B, 2)]
    assert told == [(done, 7) for done in (0, 2, 4, 5, 7)]
    with Learner.open(tmp_path / "p") as learner:
        assert {each.name: each.images for each in learner.classes()} == {A: 5, B: 2}


def test_the_command_counts_classes_and_says_how_far_it_is(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(folders, "MAX_IMAGES_AT_ONCE", 2)
    for words in (("init", tmp_path / "p"), ("add", tmp_path / "q")):
        if words[0] == "add":
            Learner.create(tmp_path / "q").close()
        monkeypatch.setattr(sys, "argv", ["fscil", "teach", *map(str, words), "--from", str(photos)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        assert not end.value.code
        assert "Pictures: 7/7" in said.err
        if words[0] == "init":
            assert ": 2 classes (" in said.out


def test_a_name_that_cannot_be_is_refused_before_anything_is_learned(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / A, photos / "\uff55nknown")  # a wide u: reads as 'unknown', and comes last
    with Learner.create(tmp_path / "p") as learner:
        with pytest.raises(InputError, match="give the class another name"):
            folders.learn_folders(learner.learn, photos)
        assert learner.classes() == []


def test_files_are_flushed_before_the_rows_that_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every picture, then the folder with their names, then the commit."""
    flushed: list[str] = []
    fsync, rows = os.fsync, transaction.Transaction.add_image

    def noted(handle: int) -> None:
        target = os.readlink(f"/proc/self/fd/{handle}")
        flushed.append("folder" if target.endswith("/images") else "picture" if "/images/" in target else "other")
        fsync(handle)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    with Learner.create(tmp_path / "p") as learner:
        monkeypatch.setattr(os, "fsync", noted)
        monkeypatch.setattr(
            transaction.Transaction, "add_image", lambda *given: (flushed.append("row"), rows(*given))[1]
        )
        learner.learn(A, characters(A, 20))
    told = [each for each in flushed if each != "other"]
    assert told == ["picture"] * 20 + ["folder"] + ["row"] * 20


def test_one_picture_that_cannot_be_written_stops_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = transaction.write_bytes, [12]

    def failing(path: Path, content: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise InputError("the disk is full")
        write(path, content)

    with Learner.create(tmp_path / "p") as learner:
        monkeypatch.setattr(transaction, "write_bytes", failing)
        with pytest.raises(InputError, match="the disk is full"):
            learner.learn(A, characters(A, 20))
        assert learner.classes() == []
        monkeypatch.undo()
        learner.learn(A, characters(A, 20))
    assert check(tmp_path / "p").wrong == []


def test_a_folder_of_an_interrupted_making_is_filled_up(tmp_path: Path) -> None:
    """What is moved up as a whole joins what is there already."""
    work, path = tmp_path / "work", tmp_path / "p"
    for folder, names in ((work, ("a", "b")), (path, ("a", "c"))):
        (folder / "images").mkdir(parents=True)
        for name in names:
            (folder / "images" / name).write_text(folder.name)
    (work / "state").mkdir()
    (work / "state" / "x").write_text("x")
    (work / FILE).write_text("database")
    making._move_up(work, path)
    assert {each.name: each.read_text() for each in (path / "images").iterdir()} == {"a": "work", "b": "work", "c": "p"}
    assert sorted(os.listdir(path)) == sorted(["images", "state", FILE])
    assert (path / "state" / "x").read_text() == "x"


@pytest.mark.skipif(os.name == "nt", reason="symbolic links")
def test_a_link_back_is_no_class(photos: Path, tmp_path: Path) -> None:
    (photos / "0").symlink_to(photos)
    (photos / "1").symlink_to(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "0.png").write_bytes(encoded(characters(NOVEL[2], 1)[0]))
    (photos / "2").symlink_to(tmp_path / "elsewhere")
    learned = Learner.create_from(tmp_path / "p", photos)
    assert {part.name: part.added for part in learned} == {A: 5, B: 2, "2": 1}

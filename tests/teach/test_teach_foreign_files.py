"""A project's folder with things in it that are no files of its own: pipes, devices, second names, other databases."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from teach_samples import NOVEL, characters

from fscil.core.errors import InputError
from fscil.teach import Learner
from fscil.teach.project.limits import MAX_FILE_BYTES
from fscil.teach.upkeep import check, restore

A, B, C = NOVEL[:3]
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


@pytest.fixture
def project(learner: Learner) -> Path:
    learner.learn(A, characters(A, 5))
    learner.learn(B, characters(B, 3))
    learner.close()
    return learner.path


def move_away(place: Path) -> None:
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(place.parents[1] / "moved")


@needs_pipes
@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    "name",
    ["images", "trash", "state", "state/encoder.onnx", "project.json", "project.sqlite-wal", "project.sqlite-shm"],
)
def test_pipes_are_refused(project: Path, name: str, readonly: bool) -> None:
    """Whoever reads one waits for ever."""
    move_away(project / name)
    os.mkfifo(project / name)
    with pytest.raises(InputError, match=rf"{name} is not a (plain file|folder)"):
        Learner.open(project, readonly=readonly)


@pytest.mark.parametrize("name", ["state/encoder.safetensors", "project.json", "project.sqlite-wal"])
def test_folders_in_place_of_files_are_refused(project: Path, name: str) -> None:
    move_away(project / name)
    (project / name).mkdir()
    with pytest.raises(InputError, match=f"{name} is not a plain file"):
        Learner.open(project)


def pipe(place: Path) -> None:
    os.mkfifo(place)


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def huge(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)


@needs_pipes
@pytest.mark.parametrize("where", ["images", "trash"])
@pytest.mark.parametrize("make", [pipe, device, huge])
def test_what_stands_for_a_picture_is_not_waited_for(project: Path, make: object, where: str, tmp_path: Path) -> None:
    picture = sorted((project / "images").iterdir())[0]
    content = picture.read_bytes()
    picture.unlink()
    (project / where).mkdir(exist_ok=True)
    make(project / where / picture.name)  # type: ignore[operator]
    found = check(project)
    assert [sentence for sentence in found.wrong if picture.name in sentence]
    with Learner.open(project) as learner:
        assert learner.predict([characters(A, 1)[0]])[0].label == A
        with pytest.raises(InputError, match=picture.stem):
            learner.image_bytes(picture.stem)
        with pytest.raises(InputError, match=picture.stem):
            learner.backup(tmp_path / "backup.zip")
    if where == "images" and make is not huge:
        (project / "trash").mkdir(exist_ok=True)
        (project / "trash" / picture.name).write_bytes(content)  # what is whole elsewhere is found
        with Learner.open(project, readonly=True) as learner:
            assert learner.image_bytes(picture.stem) == (content, "image/png")


def test_a_note_is_short(project: Path) -> None:
    note = project / "project.json"
    note.write_bytes(b" " * 20_000 + note.read_bytes())
    with pytest.raises(InputError, match=r"project\.json is damaged"):
        Learner.open(project)


def test_a_database_with_two_names_is_not_written(project: Path, tmp_path: Path) -> None:
    """As `cp -al` makes it: the copy would change with the project, and two logs would ruin both."""
    copy = tmp_path / "copy"
    shutil.copytree(project, copy, copy_function=os.link)
    for one in (project, copy):
        with pytest.raises(InputError, match="hard link"):
            Learner.open(one)
        with Learner.open(one, readonly=True) as learner:
            assert [info.images for info in learner.classes()] == [5, 3]
    (copy / "project.sqlite").unlink()
    shutil.copy(project / "project.sqlite", copy)
    with Learner.open(copy) as learner:
        learner.learn(C, characters(C, 2))
    assert check(project).wrong == []
    assert len(check(copy).right) == 3


@pytest.mark.parametrize("how", ["removed", "restored", "replaced"])
def test_who_has_it_open_does_not_write_into_a_database_that_was_replaced(
    project: Path, tmp_path: Path, how: str
) -> None:
    """A served project is put back from its backup: what is taught then must not be lost, nor the restored one hurt."""
    open_one = Learner.open(project)
    reader = Learner.open(project, readonly=True)
    open_one.backup(tmp_path / "backup.zip")
    open_one.undo()
    if how == "replaced":
        restore(tmp_path / "backup.zip", tmp_path / "other")
        (tmp_path / "other" / "project.sqlite").replace(project / "project.sqlite")
        (tmp_path / "other" / "project.json").replace(project / "project.json")
    else:
        shutil.rmtree(project)
    if how == "restored":
        restore(tmp_path / "backup.zip", project)
    with pytest.raises(InputError, match="removed or replaced while it was open"):
        open_one.learn(C, characters(C, 2))
    for each in (open_one, reader):
        with pytest.raises(InputError, match="removed or replaced while it was open"):
            each.classes()
        each.close()
    if how == "restored":
        assert check(project).wrong == []
        with Learner.open(project) as learner:
            assert [info.images for info in learner.classes()] == [5, 3]
            learner.learn(C, characters(C, 2))
        assert check(project).wrong == []

"""Opening a project deletes nothing, reading one takes no right to write, and what hinders writing is said."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import shutil
import sqlite3
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from teach_samples import NOVEL, characters, encoded

import fscil
from fscil.core import stored_networks
from fscil.core.errors import InputError
from fscil.teach import Learner

A, B = NOVEL[:2]
NOBODY = 65534
PACKAGE = Path(fscil.__file__).resolve().parent
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can do this")


@pytest.fixture
def project(learner: Learner) -> Path:
    """Two classes of five and three pictures, closed; everybody may read it."""
    learner.learn(A, characters(A, 5))
    learner.learn(B, characters(B, 3))
    learner.close()
    path = learner.path
    # The folders that pytest makes are private, however deep it (or xdist) puts this one.
    above = Path(tempfile.gettempdir()).resolve()
    for folder in (path, *path.parents):
        if folder == above or not folder.is_relative_to(above):
            break
        folder.chmod(0o755)
    for needed in (path, PACKAGE):  # whose weights are read too
        if any(not folder.stat().st_mode & 0o001 for folder in needed.parents):
            pytest.skip(f"Others cannot reach {needed}; these tests read as another user.")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def look(path: Path) -> tuple[list[tuple[str, int]], str, int]:
    """What `list`, `predict` and `doctor` need, and all the pictures, which `export` reads."""
    with Learner.open(path, readonly=True) as learner:
        classes = [(info.name, info.images) for info in learner.classes()]
        for name, _ in classes:
            assert all(learner.image_bytes(image.id) for image in learner.images(name))
        return classes, learner.predict([characters(A, 1)[0]])[0].label, learner.doctor().images


ALL = ([(A, 5), (B, 3)], A, 8)


# Nothing is deleted


def test_leftovers_go_to_the_trash_and_foreign_files_stay(project: Path) -> None:
    images = project / "images"
    named = set(contents(images))
    foreign = {"holiday.png": b"1", "notes.txt": b"2", "ab.png": b"3", f"{'a' * 64}.exe": b"4", f"{'A' * 64}.png": b"5"}
    own = {f"{'a' * 64}.png": b"6", f".{'b' * 64}-fscil-0123abcd.jpg": b"7"}
    for name, content in (foreign | own).items():
        (images / name).write_bytes(content)
    (images / f"{'c' * 64}.png").mkdir()
    (project / "trash").mkdir()
    (project / "trash" / f"{'a' * 64}.png").write_bytes(b"there before")
    Learner.open(project, readonly=True).close()
    assert len(os.listdir(images)) == 8 + 5 + 2 + 1  # a reader tidies nothing
    for _ in range(2):
        Learner.open(project).close()
        assert set(contents(images)) == named | set(foreign)
        assert (images / f"{'c' * 64}.png").is_dir()
        kept = {f"{'a' * 64}.png": b"there before", f"{'a' * 64}.png.1": b"6", f".{'b' * 64}-fscil-0123abcd.jpg": b"7"}
        assert contents(project / "trash") == kept


def test_an_older_database_and_then_the_newer_one(
    project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(project / "images")
    for name in ("project.sqlite", "project.json"):
        shutil.copy(project / name, tmp_path / name)
    with Learner.open(project) as learner:
        learner.undo()
    Learner.open(project).close()
    assert len(contents(project / "images")) == 5
    # A damaged file of the same name does not stand in for the picture.
    name = next(iter(contents(project / "trash")))
    (project / "trash" / name).rename(project / "trash" / f"{name}.1")
    (project / "trash" / name).write_bytes(b"damaged")
    shutil.copy(tmp_path / "project.sqlite", project)
    with pytest.raises(InputError, match=r"has 2 classes and 8 images .* were 1 class and 5 images"):
        look(project)
    shutil.copy(tmp_path / "project.json", project)
    assert look(project) == ALL  # who only reads finds them in the trash
    assert len(contents(project / "images")) == 5
    with caplog.at_level(logging.WARNING):
        Learner.open(project).close()
    assert "3 images are back" in caplog.text
    assert "nothing is lost" in caplog.text
    assert contents(project / "images") == before
    assert contents(project / "trash") == {name: b"damaged"}
    assert look(project) == ALL


@pytest.mark.parametrize("name", ["images", "trash", "state", "project.sqlite", "project.sqlite-wal"])
@pytest.mark.parametrize("readonly", [False, True])
def test_links_are_refused(project: Path, tmp_path: Path, name: str, readonly: bool) -> None:
    outside = tmp_path / "pictures"
    outside.mkdir()
    target: Path = outside
    if (project / name).exists():
        target = (project / name).rename(outside / "moved")
    (outside / f"{'a' * 64}.png").write_bytes(b"mine")
    (project / name).symlink_to(target)
    before = contents(outside)
    with pytest.raises(InputError, match=f"{name} is a symbolic link"):
        Learner.open(project, readonly=readonly)
    assert contents(outside) == before


def test_a_link_in_the_folder_of_a_new_project(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "p" / "state").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="symbolic link"):
        Learner.create(tmp_path / "p")
    (tmp_path / "link").symlink_to(tmp_path / "outside")  # the project's own folder may be reached by one
    Learner.create(tmp_path / "link").close()
    Learner.open(tmp_path / "link").close()


# Reading without the right to write


def as_nobody(work: Callable[[], object]) -> str:
    """What `work` answers, or the sentence it is refused with, in a process without rights."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        answer = "crashed"
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = repr(work())
        except InputError as error:
            answer = str(error)
        except BaseException:  # shown by the assertion
            answer = f"crashed: {traceback.format_exc()}"
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(process, 0)
    return answer


@needs_root
def test_another_users_project(project: Path) -> None:
    look(project)  # what is imported late is imported before the rights are gone
    before = contents(project)
    assert as_nobody(lambda: look(project)) == repr(ALL)
    for refused in (lambda: Learner.open(project), lambda: Learner.create(project.parent / "new")):
        assert "no right to write" in as_nobody(refused) or "Permission denied" in as_nobody(refused)
    assert contents(project) == before
    with Learner.open(project) as owner:  # at work: its log is read too
        owner.learn(A, characters(A, 2, seed=3))
        assert as_nobody(lambda: look(project)) == repr(([(A, 7), (B, 3)], A, 10))
    (project / "project.sqlite").chmod(0o600)
    assert "no right to read" in as_nobody(lambda: look(project))
    (project / "project.sqlite").chmod(0o644)
    project.chmod(0o600)
    assert "no right to read" in as_nobody(lambda: look(project))
    project.chmod(0o755)
    project.parent.chmod(0o700)
    assert "no right to enter a folder above" in as_nobody(lambda: look(project))


@needs_root
def test_weights_that_only_their_owner_may_read(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look(project)  # what is imported late
    weights = tmp_path / "weights"
    weights.mkdir()
    for file in stored_networks.FOLDER.glob("glyphs*"):
        shutil.copy(file, weights)
    monkeypatch.setattr(stored_networks, "FOLDER", weights)
    assert as_nobody(lambda: look(project)) == repr(ALL)
    (weights / "glyphs.safetensors").chmod(0o600)
    assert "no right to read the weights of the encoder 'glyphs'" in as_nobody(lambda: look(project))


@needs_root
def test_a_group_may_write_the_folder_but_not_the_database(project: Path) -> None:
    """Files that a reader left beside the database would be in its owner's way."""
    look(project)
    project.chmod(0o777)
    assert as_nobody(lambda: look(project)) == repr(ALL)
    assert "no right to write" in as_nobody(lambda: Learner.open(project))
    assert sorted(os.listdir(project)) == ["images", "project.json", "project.sqlite"]


@needs_root
def test_a_log_without_its_index(project: Path, tmp_path: Path) -> None:
    """Without the log the project would be older than it is: nobody is told that."""
    with Learner.open(project) as learner:
        learner.forget(B)
        shutil.copytree(project, tmp_path / "copy")
    (tmp_path / "copy" / "project.sqlite-shm").unlink()
    said = as_nobody(lambda: look(tmp_path / "copy"))
    assert "project.sqlite-wal" in said
    assert "work on a copy" in said
    assert "restore" not in said
    assert look(tmp_path / "copy")[0] == [(A, 5)]


@needs_root
def test_a_reader_without_rights_sees_what_the_owner_writes_later(project: Path) -> None:
    ready, go = os.pipe(), os.pipe()

    def watch() -> list[int]:
        with Learner.open(project, readonly=True) as learner:
            seen = [len(learner.classes())]
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            return [*seen, len(learner.classes()), learner.doctor().images]

    process = os.fork()
    if process == 0:
        select.select([ready[0]], [], [], 600)  # not for ever, should the other fail
        with Learner.open(project) as owner:
            owner.forget(B)
        os.write(go[1], b"x")
        os._exit(0)
    look(project)
    assert as_nobody(watch) == "[2, 1, 5]"
    os.waitpid(process, 0)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts something at a new folder."""
    made: list[Path] = []

    def mount(*options: str) -> Path:
        target = tmp_path / f"mount{len(made)}"
        target.mkdir()
        if subprocess.run(["mount", *options, target], capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted here")
        made.append(target)
        return target

    yield mount
    for target in made:
        subprocess.run(["umount", "--lazy", target], check=True)


@needs_root
@pytest.mark.usefixtures("kept_traces")
def test_a_read_only_disk(project: Path, mounted: Callable[..., Path], tmp_path: Path) -> None:
    disk = mounted("--bind", str(project))
    subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)
    before = contents(project)
    assert look(disk) == ALL
    with Learner.open(disk, readonly=True) as learner:
        assert learner.export(tmp_path / "model.onnx").classes == 2
        with pytest.raises(InputError, match="mounted for reading only"):
            learner.export(disk / "model.onnx")
    with pytest.raises(InputError, match="cannot be written: the disk is mounted for reading only; work on a copy"):
        Learner.open(disk)
    assert contents(project) == before


@needs_root
def test_a_full_disk(project: Path, mounted: Callable[..., Path]) -> None:
    disk = mounted("-t", "tmpfs", "-o", "size=512k", "none")
    path = shutil.copytree(project, disk / "p")
    with (disk / "rubbish").open("wb", buffering=0) as rubbish, contextlib.suppress(OSError):
        while True:
            rubbish.write(bytes(4096))
    assert look(path) == ALL
    with pytest.raises(InputError, match="the disk is full; free some space") as refused:
        Learner.open(path)
    assert "copy" not in str(refused.value)
    (disk / "rubbish").unlink()
    with Learner.open(path) as learner:
        assert learner.learn(A, characters(A, 1, seed=3)).added == 1


# Writing that fails


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full; free some space and try again"),
        (errno.EACCES, "you have no right to write there; ask the owner"),
        (errno.EIO, "check the folder and its disk"),
    ],
)
def test_a_picture_that_cannot_be_written(
    learner: Learner, number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    for name in ("fscil.core.storage.os.replace", "fscil.teach.project.transaction.os.fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(name, fail)
            with pytest.raises(InputError, match=words) as refused:
                learner.learn(A, [encoded(characters(A)[0])])
            assert "--resume" not in str(refused.value)
        assert learner.classes() == []
    assert learner.learn(A, characters(A)).added == 5


def test_a_database_that_cannot_grow(learner: Learner) -> None:
    learner._store._writer.execute("PRAGMA max_page_count = 1")  # type: ignore[union-attr]
    with pytest.raises(InputError, match="was not changed: the disk is full; free some space"):
        learner.learn(A, characters(A, 30))
    assert learner.classes() == []


def test_a_damaged_database_is_still_called_so(project: Path) -> None:
    with sqlite3.connect(project / "project.sqlite") as database:
        database.execute("DROP TABLE meta")
    with pytest.raises(InputError, match=r"not a readable project .* restore it from a copy"):
        Learner.open(project)

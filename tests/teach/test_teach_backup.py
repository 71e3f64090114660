"""Backups are made while others write, hold everything, and come back whole or not at all; new projects likewise."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Done, Process, fscil
from teach_samples import NOVEL, characters, encoded, noise
from test_teach_crash import child, die_at, read_all
from test_teach_damage import hurt, look

from fscil.core.errors import InputError
from fscil.teach import Learner, import_onnx
from fscil.teach.project.inspection import FILE
from fscil.teach.project.leftovers import held
from fscil.teach.upkeep import check, restore

A, B = NOVEL[:2]
IMAGES = 3


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "p"
    with Learner.create(path) as learner:
        for character in (A, B):
            learner.learn(character, characters(character, 4))
        learner.learn("gone", noise(2))
        learner.forget("gone")
    return path


@pytest.fixture(scope="module")
def archive(original: Path) -> Path:
    with Learner.open(original, readonly=True) as learner:
        made = learner.backup(original.parent / "backup.zip")
    assert (made.classes, made.images) == (2, 8)
    return original.parent / "backup.zip"


# Not ours (a date is no sign of us).
STAY = {".m-20240131.onnx", ".m-fscil-0123abcd.zip", ".m-fscil-0123abcX.onnx", ".mm-fscil-0123abcd.onnx"}
HELD = ".m-fscil-89abcdef.onnx"  # in use
TRACES = ("fscil-trace-abcd1234", "fscil-trace-not-ours")  # of a process that died, and something else


@pytest.fixture(scope="module")
def exported(original: Path, tmp_path_factory: pytest.TempPathFactory, kept_traces: None) -> Path:
    """A model, in a folder where killed exports had left something."""
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("exported")
    temporary = tmp_path_factory.mktemp("temporary")
    for name in TRACES:
        (temporary / name).mkdir()
        (temporary / name / "encoder.onnx").write_bytes(b"x")
    for name in STAY | {HELD, ".m-fscil-0123abcd.onnx"}:
        (folder / name).write_bytes(b"x")
    (folder / "mine").write_text("mine")
    (folder / ".m-fscil-00000000.onnx").symlink_to(folder / "mine")
    with (
        pytest.MonkeyPatch.context() as patch,
        held(folder / HELD),
        Learner.open(original, readonly=True) as learner,
    ):
        patch.setattr(tempfile, "tempdir", str(temporary))
        learner.export(folder / "m.onnx")
    assert os.listdir(temporary) == [TRACES[1]]
    return folder / "m.onnx"


def test_there_and_back(original: Path, archive: Path, tmp_path: Path) -> None:
    assert sorted(os.listdir(archive.parent)) == ["backup.zip", "p"]
    restored = restore(archive, tmp_path / "new")
    assert (restored.classes, restored.images) == (2, 8)
    assert look(tmp_path / "new") == look(original)
    assert check(tmp_path / "new").wrong == []
    assert sorted(os.listdir(tmp_path / "new")) == ["images", "project.json", FILE]
    with Learner.open(tmp_path / "new") as learner:
        assert learner.undo() == "forgot 'gone'"  # with its pictures
        assert all(learner.image_bytes(image.id) for image in learner.images("gone"))
    with zipfile.ZipFile(archive) as packed:  # a plain zip, should this program be gone
        assert packed.testzip() is None
        assert sorted(n for n in packed.namelist() if "/" not in n) == ["project.json", FILE]


def test_a_project_from_an_export_has_its_encoder_in_the_backup(exported: Path, tmp_path: Path) -> None:
    with import_onnx(exported, tmp_path / "p") as learner:
        learner.backup(tmp_path / "b.zip")
        expected = [(a.label, a.confidence) for a in learner.predict(characters(A, 2, test=True))]
    restore(tmp_path / "b.zip", tmp_path / "again")
    with Learner.open(tmp_path / "again", readonly=True) as learner:
        assert [(a.label, a.confidence) for a in learner.predict(characters(A, 2, test=True))] == expected


def test_where_it_is_refused(original: Path, archive: Path, tmp_path: Path) -> None:
    for path, words in ((original, "a project already"), (archive.parent, "not empty"), (archive, "is a file")):
        with pytest.raises(InputError, match=words):
            restore(archive, path)
    with pytest.raises(InputError, match="does not exist"):
        restore(tmp_path / "no.zip", tmp_path / "new")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(InputError, match="is not a file; give one that"):
            restore(path, tmp_path / "new")
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(InputError, match="not a whole backup"):
        restore(tmp_path / "text.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "place", [FILE, f"{FILE}-wal", "Project.SQLITE", "project.json", "images", "images/x.zip", "trash", "state/x"]
)
def test_not_where_a_project_keeps_its_own(original: Path, tmp_path: Path, place: str) -> None:
    shutil.copytree(original, tmp_path / "p")
    (tmp_path / "link").symlink_to(tmp_path / "p")
    before = sorted((tmp_path / "p").rglob("*"))
    with Learner.open(tmp_path / "p", readonly=True) as learner:
        for write in (learner.backup, learner.export):
            with pytest.raises(InputError, match="the project's own"):
                write(tmp_path / "link" / place)
    assert sorted((tmp_path / "p").rglob("*")) == before
    assert look(tmp_path / "p") == look(original)


def test_damaged_backups_are_refused(original: Path, archive: Path, tmp_path: Path) -> None:
    expected, rng = look(original), random.Random(1)
    refused = 0
    for number in range(40):
        copy = tmp_path / "damaged.zip"
        copy.write_bytes(hurt(archive.read_bytes(), rng))
        try:
            restore(copy, tmp_path / str(number))
        except InputError as error:
            sentence = str(error)
        else:
            assert look(tmp_path / str(number)) == expected  # bytes that nobody reads
            continue
        assert "\n" not in sentence
        assert not (tmp_path / str(number)).exists()
        refused += 1
    assert refused > 20


def repacked(archive: Path, target: Path, change: Callable[[dict[str, bytes], zipfile.ZipFile], None]) -> Path:
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(target, "w") as new:
        members = {name: old.read(name) for name in old.namelist()}
        change(members, new)
        for name, content in members.items():
            new.writestr(name, content)
    return target


def test_hostile_backups(archive: Path, tmp_path: Path) -> None:
    picture = next(n for n in zipfile.ZipFile(archive).namelist() if n.startswith("images/"))
    bomb = zipfile.ZipInfo("state/encoder.onnx")
    bomb.compress_type = zipfile.ZIP_DEFLATED
    link = zipfile.ZipInfo("state/encoder.safetensors")
    link.external_attr = 0o120777 << 16

    def other_generation(members: dict[str, bytes], _: zipfile.ZipFile) -> None:
        note = json.loads(members["project.json"])
        members["project.json"] = json.dumps({**note, "generation": 9}).encode()

    changes: dict[str, Callable[[dict[str, bytes], zipfile.ZipFile], object]] = {
        "outside": lambda m, _: m.update({"../evil.txt": b"x"}),
        "absolute": lambda m, _: m.update({"/tmp/evil.txt": b"x"}),
        "through images": lambda m, _: m.update({"images/../../evil.png": b"x"}),
        "other": lambda m, _: m.update({"notes.txt": b"x"}),
        "log": lambda m, _: m.update({f"{FILE}-wal": b"x"}),
        "folder": lambda m, _: m.update({"images/": b""}),
        "bomb": lambda _, new: new.writestr(bomb, bytes(10_000_000)),
        "link": lambda _, new: new.writestr(link, "/etc/passwd"),
        "picture": lambda m, _: m.update({picture: b"other"}),
        "no picture": lambda m, _: m.pop(picture),
        "no database": lambda m, _: m.pop(FILE),
        "no note": lambda m, _: m.pop("project.json"),
        "older": other_generation,
    }
    for name, change in changes.items():
        file = repacked(archive, tmp_path / "hostile.zip", change)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="not a whole backup"):
            restore(file, tmp_path / "new")
        assert not (tmp_path / "new").exists(), name
    assert sorted(os.listdir(tmp_path)) == ["hostile.zip"]


def test_a_backup_while_others_teach(tmp_path: Path) -> None:
    path = tmp_path / "p"
    Learner.create(path).close()

    def teach(pipe: int) -> None:
        with Learner.open(path) as learner:
            for number in range(10_000):
                learner.learn(f"c{number}", noise(IMAGES, seed=number))
                os.write(pipe, b".")

    process, pipe = child(teach)
    try:
        for number in range(8):
            os.read(pipe, 1)
            with Learner.open(path, readonly=True) as learner:
                made = learner.backup(tmp_path / f"{number}.zip")
            restore(tmp_path / f"{number}.zip", tmp_path / str(number))
            assert check(tmp_path / str(number)).wrong == []
            with Learner.open(tmp_path / str(number)) as learner:
                assert all(info.images == IMAGES for info in learner.classes())
                assert len(learner.classes()) == made.classes > number
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(pipe)
    assert check(path).wrong == []


def test_no_backup_of_damaged_pictures(original: Path, tmp_path: Path) -> None:
    project = shutil.copytree(original, tmp_path / "p")
    next((project / "images").iterdir()).write_bytes(b"x")
    with Learner.open(project) as learner, pytest.raises(InputError, match="is damaged; bring it back"):
        learner.backup(tmp_path / "b.zip")
    assert os.listdir(tmp_path) == ["p"]


# Whole or absent


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for character in (A, B):
        (tmp_path / "photos" / character).mkdir(parents=True)
        for number, image in enumerate(characters(character, IMAGES)):
            (tmp_path / "photos" / character / f"{number}.png").write_bytes(encoded(image))
    return tmp_path / "photos"


def test_a_project_from_folders(folders: Path, tmp_path: Path) -> None:
    (folders / A / "text.png").write_text("x")
    learned = Learner.create_from(tmp_path / "p", folders)
    assert [(result.name, result.added, len(result.skipped)) for result in learned] == [(A, 3, 1), (B, 3, 0)]
    assert check(tmp_path / "p").wrong == []
    for file in folders.rglob("*.png"):
        file.write_text("x")
    with pytest.raises(InputError, match="Nothing was learned"):
        Learner.create_from(tmp_path / "q", folders)
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize("step", ["os.replace", "os.fsync", "os.open"])
def test_death_before_each_step_of_making_one(folders: Path, tmp_path: Path, step: str) -> None:
    """No project or the whole; and the next one to make it finds nothing in its way, and leaves nothing behind."""
    Learner.create_from(tmp_path / "warm", folders)  # the network is loaded
    died = 0
    for deadline in range(1, 50, 5):
        path = tmp_path / str(deadline)

        def make(pipe: int, path: Path = path, deadline: int = deadline) -> None:
            die_at(deadline, step)
            Learner.create_from(path, folders)

        process, pipe = child(make)
        read_all(pipe)
        died += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 77
        if not (path / FILE).exists():
            Learner.create_from(path, folders)
        with Learner.open(path) as learner:
            assert {info.name: info.images for info in learner.classes()} == {A: IMAGES, B: IMAGES}
        assert check(path).wrong == []
        assert sorted(os.listdir(path)) == ["images", "project.json", FILE]
    assert died > 1


def test_kill_9_while_making_one(folders: Path, tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / str(number)
        process = Process("teach", "init", path, "--from", folders, log=tmp_path / "log")
        while not path.exists() and not process.over:
            time.sleep(0.001)
        time.sleep(0.1 * number)
        process.kill()
        if (path / FILE).exists():
            assert check(path).wrong == []
            with Learner.open(path) as learner:
                assert {info.name: info.images for info in learner.classes()} == {A: IMAGES, B: IMAGES}
        else:
            with pytest.raises(InputError, match="is not a project"):
                Learner.open(path)
            Learner.create_from(path, folders)
        assert not [name for name in os.listdir(path) if name.startswith(".")]


def test_death_while_importing(exported: Path, tmp_path: Path) -> None:
    for step, deadline in (("os.replace", 1), ("os.replace", 2), ("os.fsync", 2), ("execute", 3), ("execute", 8)):
        path = tmp_path / f"{step}{deadline}"

        def make(pipe: int, path: Path = path, step: str = step, deadline: int = deadline) -> None:
            die_at(deadline, step)
            import_onnx(exported, path)

        process, pipe = child(make)
        read_all(pipe)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 77
        assert not (path / FILE).exists()
        import_onnx(exported, path).close()
        with Learner.open(path, readonly=True) as learner:
            assert len(learner.classes()) == 2


def test_two_at_once_in_one_folder(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    with held(tmp_path / "p"), pytest.raises(InputError, match="Another process is making a project"):
        Learner.create(tmp_path / "p")
    Learner.create(tmp_path / "p").close()


# Leftovers


def test_leftovers_of_killed_exports(exported: Path) -> None:
    assert set(os.listdir(exported.parent)) == STAY | {HELD, "m.onnx", "mine", ".m-fscil-00000000.onnx"}


def test_leftovers_of_killed_backups(original: Path, tmp_path: Path) -> None:
    for name in (".b-fscil-0123abcd.zip", ".b-20240131.zip"):  # ours, and somebody's
        (tmp_path / name).write_bytes(b"x")
    with Learner.open(original, readonly=True) as learner:
        learner.backup(tmp_path / "b.zip")
    assert sorted(os.listdir(tmp_path)) == [".b-20240131.zip", "b.zip"]


def test_leftovers_in_a_project(original: Path, tmp_path: Path) -> None:
    project = shutil.copytree(original, tmp_path / "p")
    (project / ".project-fscil-0123abcd" / "images").mkdir(parents=True)
    (project / ".project-fscil-0123abcd.json").write_text("{}")
    mine = {".project-mine", "notes.txt", ".project-fscil-0123abcd.txt", ".project-20240131.json"}
    for name in mine:
        (project / name).write_text("x")
    (project / ".project-20240131").mkdir()
    (project / ".project-fscil-89abcdef").mkdir()
    with held(project / ".project-fscil-89abcdef"):
        Learner.open(project, readonly=True).close()
        assert (project / ".project-fscil-0123abcd").exists()
        Learner.open(project).close()
    left = mine | {".project-20240131", ".project-fscil-89abcdef"}
    assert set(os.listdir(project)) == left | {"images", "project.json", FILE}


def test_the_commands(original: Path, tmp_path: Path) -> None:
    def run(*arguments: object) -> Done:
        return fscil("teach", *arguments)

    done = run("backup", original, tmp_path / "b.zip")
    assert done.returncode == 0, done.stderr
    assert "2 classes, 8 images" in done.stdout
    assert run("backup", original, tmp_path / "b.zip").returncode == 2
    assert run("restore", tmp_path / "b.zip", tmp_path / "p").returncode == 0
    done = run("check", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    assert "10, each with the content" in done.stdout
    with contextlib.closing(sqlite3.connect(tmp_path / "p" / FILE)) as database:
        database.execute("UPDATE images SET features = zeroblob(length(features)) WHERE id = 1")
        database.commit()
    done = run("check", tmp_path / "p")
    assert done.returncode == 2
    assert "not what was written" in done.stderr
    done = run("check", tmp_path / "p", "--repair")
    assert done.returncode == 0, done.stderr
    assert "The features of 1 images were damaged" in done.stdout
    assert run("check", tmp_path / "p").returncode == 0

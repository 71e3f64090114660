"""A damaged, older or foreign project is refused with a sentence or answers as before, and is never silently other."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from commands import fscil
from teach_samples import NOVEL, characters, encoded

from fscil.core.errors import InputError
from fscil.teach import Learner
from fscil.teach.project.inspection import FILE
from fscil.teach.upkeep import check

A, B, C = NOVEL[:3]
ASKED = [encoded(image) for character in (A, B, C) for image in characters(character, 2, test=True)]

Look = tuple[object, ...]


def look(path: Path, readonly: bool = True) -> Look:
    """All that a user can see: classes, images and their content, history, answers."""
    with Learner.open(path, readonly=readonly) as learner:
        classes = learner.classes()
        images = [learner.images(info.name) for info in classes]
        contents = [learner.image_bytes(image.id) for group in images for image in group]
        answers = [(a.label, a.confidence) for a in learner.predict(ASKED)]
        return classes, images, contents, learner.history(), learner.threshold(), answers


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("closed") / "p"
    with Learner.create(path) as learner:
        for character in (A, B, C):
            learner.learn(character, characters(character, 4))
        learner.forget(C)
        learner.set_threshold(0.3)
    return path


@pytest.fixture(scope="module")
def in_use(tmp_path_factory: pytest.TempPathFactory, closed: Path) -> Path:
    """Copied while it was open: the last changes are in its log."""
    path = tmp_path_factory.mktemp("in_use")
    shutil.copytree(closed, path / "original")
    with Learner.open(path / "original") as learner:
        learner.undo()
        learner.undo()
        learner.learn(B, characters(B, 3, seed=5))
        shutil.copytree(path / "original", path / "p")
    assert (path / "p" / f"{FILE}-wal").stat().st_size > 10_000
    return path / "p"


@pytest.fixture
def project(closed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(closed, tmp_path / "p")


def live(path: Path) -> list[Path]:
    """The picture files of the classes that are there."""
    with contextlib.closing(sqlite3.connect(path / FILE)) as database:
        rows = database.execute("SELECT sha256 FROM images WHERE removed_by IS NULL ORDER BY id").fetchall()
    return [path / "images" / f"{row[0]}.png" for row in rows]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hurt(content: bytes, rng: random.Random) -> bytes:
    """One byte, several, a block, or the end gone."""
    data, kind = bytearray(content), rng.randrange(5)
    start = rng.randrange(len(data))
    if kind < 2:
        data[start] ^= 1 << rng.randrange(8)
    elif kind == 2:
        for _ in range(rng.randrange(2, 30)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 3:
        data[start : start + 512] = bytes(len(data[start : start + 512]))
    else:
        del data[start:]
    return bytes(data)


DAMAGED = [
    ("closed", FILE),
    ("in_use", FILE),
    ("in_use", f"{FILE}-wal"),
    ("closed", "image"),
    ("closed", "project.json"),
]


@pytest.mark.parametrize(("which", "name"), DAMAGED)
def test_random_damage(which: str, name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    source: Path = request.getfixturevalue(which)
    rng = random.Random(f"{which} {name}")
    expected = look(shutil.copytree(source, tmp_path / "whole"))
    counts = {"equal": 0, "refused": 0}
    for number in range(30):
        copy = shutil.copytree(source, tmp_path / str(number))
        target = rng.choice(live(copy)) if name == "image" else copy / name
        content = target.read_bytes()
        target.write_bytes(hurt(content, rng))
        if target.read_bytes() == content:
            continue
        left = files(copy)
        try:
            found = look(copy, readonly=bool(number % 2))
        except InputError as error:
            found, sentence = None, str(error)
        if found is None:
            counts["refused"] += 1
            assert "\n" not in sentence
            assert sentence.endswith(".")
            # All that a repair may need is there.
            assert {k: v for k, v in left.items() if "shm" not in k}.items() <= files(copy).items()
        else:
            counts["equal"] += 1
            assert found == expected
        shutil.rmtree(copy)
    assert counts["refused"] >= 5
    if name == "image":
        assert counts["equal"] == 0


@pytest.mark.parametrize("readonly", [True, False])
def test_a_copy_without_its_log_is_older_and_says_so(in_use: Path, tmp_path: Path, readonly: bool) -> None:
    copy = shutil.copytree(in_use, tmp_path / "p", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    with pytest.raises(InputError, match=r"it has 2 classes and 8 images .* were 3 classes and 15 images") as refused:
        Learner.open(copy, readonly=readonly)
    assert f"{FILE}-wal" in str(refused.value)
    assert "--repair" in str(refused.value)
    look(shutil.copytree(in_use, tmp_path / "whole"))


def test_going_on_from_an_older_database(in_use: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(in_use, tmp_path / "p", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    found = check(copy)
    assert not found.right
    assert "older" in found.wrong[0]
    found = check(copy, repair=True)
    assert found.wrong == []
    assert "There were 3 classes with 15 images." in found.right
    assert check(copy).wrong == []
    with Learner.open(copy) as learner:
        assert {info.name: info.images for info in learner.classes()} == {A: 4, B: 4}
        assert learner.history()[-1].what == "repaired"
        with pytest.raises(InputError, match="before the repair"):
            learner.undo()
        learner.learn(C, characters(C))
        learner.undo()
    # Pictures that no class names now are in the trash, and the old database beside them.
    assert len(list((copy / "trash").glob("*.png"))) == 3
    assert (copy / "trash" / "database-1" / FILE).exists()


def test_a_closed_project_has_no_log_and_a_note(closed: Path) -> None:
    assert sorted(os.listdir(closed)) == ["images", "project.json", FILE]
    note = json.loads((closed / "project.json").read_text())
    with contextlib.closing(sqlite3.connect(closed / FILE)) as database:
        generation, digest = (
            database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0]
            for key in ("generation", "digest")
        )
    assert note == {"generation": int(generation), "classes": 2, "images": 8, "digest": digest}


def test_the_digest_is_that_of_the_rows(project: Path) -> None:
    """Carried on change by change, it is what reading all rows gives: opening would refuse anything else."""
    with Learner.open(project) as learner:
        for step in range(25):  # more than can be undone, so that rows go for good
            learner.learn(f"n{step}", characters(A, 2, seed=10 + step))
            learner.rename(f"n{step}", f"m{step}")
            learner.forget(f"m{step}")
            if step % 3 == 0:
                learner.undo()
            Learner.open(project, readonly=True).close()
    look(project)


def strip(path: Path) -> None:
    """As version 1 left it."""
    with contextlib.closing(sqlite3.connect(path / FILE)) as database:
        database.execute("DELETE FROM meta WHERE key = 'digest'")
        database.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
        database.commit()
    (path / "project.json").unlink()


def test_a_project_of_version_1(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = look(project)
    strip(project)
    assert look(project) == expected
    assert sorted(os.listdir(project)) == ["images", FILE]  # who only reads writes nothing
    assert check(project).wrong == []
    Learner.open(project).close()
    assert (project / "project.json").exists()
    assert look(project) == expected
    assert not caplog.records
    with sqlite3.connect(project / FILE) as database:
        database.execute("UPDATE classes SET name = 'other' WHERE id = 1")
    with pytest.raises(InputError, match="not what was written"):
        look(project)


def test_a_lost_note_is_said_and_written_anew(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected, note = look(project), (project / "project.json").read_bytes()
    (project / "project.json").unlink()
    assert look(project) == expected
    assert "project.json is missing" in caplog.text
    assert "project.json is missing" in check(project).wrong[0]
    Learner.open(project).close()
    assert (project / "project.json").read_bytes() == note
    (project / "project.json").write_text("{}")
    with pytest.raises(InputError, match=r"project.json is damaged.*--repair"):
        look(project)
    assert check(project, repair=True).wrong == []
    assert look(project)[0] == expected[0]


def test_a_database_newer_than_its_note(project: Path) -> None:
    """Killed between the commit and the note: lawful, and the next one to write brings the note up to date."""
    old = (project / "project.json").read_bytes()
    with Learner.open(project) as learner:
        learner.rename(A, "renamed")
    new = (project / "project.json").read_bytes()
    (project / "project.json").write_bytes(old)
    look(project)
    assert (project / "project.json").read_bytes() == old
    Learner.open(project).close()
    assert (project / "project.json").read_bytes() == new


@pytest.mark.parametrize("note", ["lost", "older"])
def test_the_digest_notices_what_no_note_can(project: Path, note: str) -> None:
    """Sound for SQLite, and no note of this state: only the digest among the rows tells that a feature is another."""
    old = (project / "project.json").read_bytes()
    with Learner.open(project) as learner:
        learner.rename(A, "renamed")
    with contextlib.closing(sqlite3.connect(project / FILE)) as database:
        (features,) = database.execute("SELECT features FROM images WHERE id = 3").fetchone()
        database.execute("UPDATE images SET features = ? WHERE id = 3", [bytes([features[0] ^ 1]) + features[1:]])
        database.commit()
    (project / "project.json").unlink()
    if note == "older":
        (project / "project.json").write_bytes(old)
    with pytest.raises(InputError, match="its content is not what was written"):
        Learner.open(project)


def test_a_late_note_does_not_go_before_a_later_one(project: Path) -> None:
    """Two writers: whoever comes second to its note must not overwrite that of a later change."""
    with Learner.open(project) as first, Learner.open(project) as second:
        publish = first._store._publish
        first._store._publish = lambda *given: (second.rename(B, "later"), publish(*given))  # type: ignore[method-assign]
        first.rename(A, "earlier")
        generation = first.generation
    assert json.loads((project / "project.json").read_text())["generation"] == generation
    assert sorted(os.listdir(project)) == ["images", "project.json", FILE]


def edit(path: Path, *statements: str) -> None:
    """By somebody who knows the format: with the digest that fits."""
    from fscil.teach.project.tally import Tally, total

    with contextlib.closing(sqlite3.connect(path / FILE, isolation_level=None)) as database:
        tally = Tally(database)
        for statement in statements:
            database.execute(statement)
        (before,) = database.execute("SELECT value FROM meta WHERE key = 'digest'").fetchone()
        database.execute("UPDATE meta SET value = ? WHERE key = 'digest'", (total(int(before, 16) + tally.change),))
    (path / "project.json").unlink()


FOREIGN = {
    "trigger": ("CREATE TRIGGER evil AFTER INSERT ON changes BEGIN DELETE FROM images; END", "the trigger 'evil'"),
    "temp view": ("CREATE VIEW evil AS SELECT * FROM meta", "the view 'evil'"),
    "table": ("CREATE TABLE extra (a)", "the table 'extra'"),
    "virtual table": ("CREATE VIRTUAL TABLE extra USING fts5(a)", "the table 'extra"),
    "index": ("CREATE INDEX extra ON images (file)", "the index 'extra'"),
    "column": ("ALTER TABLE images ADD COLUMN extra", "the table 'images'"),
    "no index": ("DROP INDEX live_images", "'live_images' is missing"),
    "text for a blob": ("UPDATE images SET features = 'x' WHERE id = 2", "features of images holds str"),
    "blob for text": ("UPDATE classes SET name = x'00ff' WHERE id = 1", "name of classes holds bytes"),
    "text for a number": ("UPDATE changes SET undone = 'x'", "undone of changes holds str"),
    "short features": ("UPDATE images SET features = x'00000000' WHERE id = 2", "wrong size"),
    "infinite features": (
        "UPDATE images SET features = CAST(x'0000807f' || substr(features, 5) AS BLOB) WHERE id = 2",
        "not finite",
    ),
    "NaN features": (
        "UPDATE images SET features = CAST(x'0000c07f' || substr(features, 5) AS BLOB) WHERE id = 2",
        "not finite",
    ),
    "a path for a hash": ("UPDATE images SET sha256 = '../../../etc/passwd' WHERE id = 2", "no proper hash"),
    "media": ("UPDATE images SET media = 'text/html' WHERE id = 2", "media type"),
    "threshold": ("UPDATE meta SET value = 'nan' WHERE key = 'level'", "its threshold makes no sense"),
    "generation": ("UPDATE meta SET value = 'x' WHERE key = 'generation'", "its generation makes no sense"),
    "encoder": ("UPDATE meta SET value = '[]' WHERE key = 'encoder'", "its encoder makes no sense"),
    "dimensions": (
        "UPDATE meta SET value = replace(value, '\"dim\": 64', '\"dim\": 1e9') WHERE key = 'encoder'",
        "its encoder makes no sense",
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_strangers_database(project: Path, kind: str) -> None:
    statement, words = FOREIGN[kind]
    try:
        edit(project, statement)
    except sqlite3.OperationalError as error:
        if "no such module" not in str(error):
            raise
        pytest.skip("this SQLite has no such tables")
    for readonly in (True, False):
        with pytest.raises(InputError, match=words):
            Learner.open(project, readonly=readonly)


@pytest.mark.parametrize("detail", ["[]", "{}", "no JSON"])
def test_a_strangers_history(project: Path, detail: str) -> None:
    edit(project, f"UPDATE changes SET detail = '{detail}'")
    with Learner.open(project) as learner, pytest.raises(InputError, match="cannot be undone"):
        learner.undo()


def test_nothing_of_a_foreign_view_is_run(project: Path) -> None:
    """`meta` itself may be a view over an endless query."""
    with contextlib.closing(sqlite3.connect(project / FILE)) as database:
        database.execute("DROP TABLE meta")
        database.execute(
            "CREATE VIEW meta AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT 'schema' AS key, max(i) AS value FROM n"
        )
        database.commit()
    with pytest.raises(InputError, match="the view 'meta'"):
        Learner.open(project)


def test_the_command_line_refuses_in_one_line(project: Path) -> None:
    edit(project, FOREIGN["NaN features"][0])
    for command in (["teach", "list"], ["teach", "undo"], ["teach", "check"], ["doctor"]):
        done = fscil(*command, project)
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1].startswith("fscil: ")
        assert "not finite" in done.stderr


def test_images_are_checked_when_they_are_read(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged, lost = live(project)[:2]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + b"x")
    lost.unlink()
    with Learner.open(project) as learner:
        assert "1 of 12 pictures are missing" in caplog.text
        for name in (damaged.stem, lost.stem):
            with contextlib.suppress(InputError):
                learner.image_bytes(name)
                pytest.fail("a damaged picture was shown")
        assert learner.predict(ASKED)
        (project / "trash").mkdir(exist_ok=True)
        (project / "trash" / damaged.name).write_bytes(content)
        assert learner.image_bytes(damaged.stem) == (content, "image/png")
    (project / "trash" / damaged.name).unlink()
    assert len(check(project).wrong) == 2
    found = check(project, repair=True)
    assert any("1 damaged pictures were moved" in sentence for sentence in found.right)
    assert (project / "trash" / damaged.name).read_bytes() == content[:-1] + b"x"
    assert look_classes(project) == look_classes(project)


def test_a_picture_that_another_process_is_writing_is_in_nobodys_way(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file is renamed between the two moments in which a reader lists the folder and looks at the file."""
    being_written = project / "images" / f".{'a' * 64}-0123abcd.png"
    being_written.write_bytes(b"half")
    with os.scandir(project / "images") as entries:
        listed = list(entries)
    being_written.unlink()
    monkeypatch.setattr("fscil.teach.project.inspection.os.scandir", lambda folder: listed)
    Learner.open(project, readonly=True).close()
    assert "missing" not in caplog.text


def look_classes(path: Path) -> list[tuple[str, int]]:
    with Learner.open(path, readonly=True) as learner:
        return [(info.name, info.images) for info in learner.classes()]


def features(path: Path) -> np.ndarray:
    with contextlib.closing(sqlite3.connect(path / FILE)) as database:
        rows = database.execute("SELECT features FROM images ORDER BY id").fetchall()
    return np.stack([np.frombuffer(row[0], dtype="<f4") for row in rows])


def test_damaged_features_are_made_anew_from_the_pictures(project: Path) -> None:
    before, expected = features(project), look(project)
    with sqlite3.connect(project / FILE) as database:
        database.execute("UPDATE images SET features = zeroblob(length(features)) WHERE id IN (2, 5)")
        database.execute("UPDATE images SET features = x'00' WHERE id = 7")
    with pytest.raises(InputError, match=r"wrong size|not what was written"):
        look(project)
    found = check(project, repair=True)
    assert found.wrong == []
    assert any(sentence.startswith("The features of 3 images were damaged") for sentence in found.right)
    after = features(project)
    assert np.allclose(after, before, atol=1e-3 * np.abs(before).max())
    assert np.array_equal(np.delete(after, [1, 4, 6], 0), np.delete(before, [1, 4, 6], 0))  # sound ones stay
    assert [a[0] for a in look(project)[5]] == [a[0] for a in expected[5]]  # type: ignore[index, attr-defined]


def tear(project: Path, table: str) -> None:
    """Zeros in place of a table's first page."""
    with contextlib.closing(sqlite3.connect(project / FILE)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
        page = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table]).fetchone()[0]
    content = bytearray((project / FILE).read_bytes())
    content[(page - 1) * size : page * size] = bytes(size)
    (project / FILE).write_bytes(content)


def test_a_torn_page_loses_only_what_stood_on_it(project: Path) -> None:
    """Half of the tables' pages are readable: what can be read stays, the rest is said."""
    tear(project, "images_of_class")
    with pytest.raises(InputError, match="not a readable project"):
        Learner.open(project)
    assert check(project, repair=True).wrong == []  # an index: nothing is lost
    assert look_classes(project) == [(A, 4), (B, 4)]


def test_classes_whose_names_are_lost_keep_their_images(project: Path) -> None:
    tear(project, "classes")
    found = check(project, repair=True)
    assert found.wrong == []
    assert any(sentence.startswith("The names of 2 classes were lost") for sentence in found.right)
    assert [images for _, images in look_classes(project)] == [4, 4]
    with Learner.open(project) as learner:
        assert learner.predict([characters(A, 1)[0]])[0].label == "class 1"
        learner.rename("class 1", A)
    assert check(project).wrong == []


def test_where_nothing_can_be_saved_nothing_is_done(project: Path) -> None:
    tear(project, "images")
    before = files(project)
    with pytest.raises(InputError, match=r"cannot be repaired \(no image can be read with its class\)"):
        check(project, repair=True)
    assert {name: content for name, content in files(project).items() if "shm" not in name} == before


def test_a_schema_that_is_not_even_text(project: Path) -> None:
    content = (project / FILE).read_bytes()
    (project / FILE).write_bytes(content.replace(b"sha256 TEXT NOT NULL", b"sha256 TEXT NOT N\x81LL"))
    with pytest.raises(InputError, match="not a readable project"):
        Learner.open(project)
    with pytest.raises(InputError, match="cannot be repaired"):
        check(project, repair=True)


def test_no_repair_while_another_process_has_it_open(project: Path) -> None:
    ready: tuple[int, int] = os.pipe()
    leave: tuple[int, int] = os.pipe()
    process = os.fork()
    if process == 0:
        with Learner.open(project):
            os.write(ready[1], b"x")
            os.read(leave[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    (project / "project.json").write_text("{}")
    with pytest.raises(InputError, match=r"has .* open"):
        check(project, repair=True)
    os.write(leave[1], b"x")
    os.waitpid(process, 0)
    assert check(project, repair=True).wrong == []


def test_opening_many_images_is_quick(tmp_path: Path) -> None:
    """Ten thousand rows; the bound is generous for a busy machine, the usual time is a fraction of a second."""
    import time

    with Learner.create(tmp_path / "p", keep_images=False) as learner:
        rows = np.random.default_rng(0).normal(size=(10_000, 256)).astype("<f4")
        with learner._store.change("learn") as change:
            key = change.add_class("many")
            change._connection.executemany(
                "INSERT INTO images (sha256, class_id, file, media, added, features, added_by) "
                "VALUES (?, ?, 'x', 'image/png', 'now', ?, ?)",
                [(f"{at:064x}", key, row.tobytes(), change.number) for at, row in enumerate(rows)],
            )
    started = time.process_time()
    with Learner.open(tmp_path / "p", readonly=True) as learner:
        assert learner.classes()[0].images == 10_000
    assert time.process_time() - started < 5

"""A new database from what can be read of the old one, and from the pictures. The old one is kept in trash/."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.data.images import SUFFIX_OF
from fscil.teach.project.connection import connect
from fscil.teach.project.inspection import FILE, SHA256, DamagedError, check_meta, check_schema
from fscil.teach.project.making import work_folder
from fscil.teach.project.note import NOTE, Note, OutdatedError
from fscil.teach.project.tally import OUTSIDE, VERSION, Tally, expected, schema
from fscil.teach.project.transaction import Transaction, flush_folder
from fscil.teach.project.trash import stored_content

Embed = Callable[[str, list[bytes]], np.ndarray]  # the reference of an encoder and pictures, to their features
Rows = dict[str, list[list[Any]]]
_TOGETHER = 256  # pictures
_SAME = 1e-2  # of the length: features from another processor differ by less, damaged ones by more


def rebuild(project: Path, error: DamagedError | OutdatedError, embed: Embed) -> list[str]:
    """What was done, in sentences. `error`: why the project cannot be opened."""
    _refuse_in_use(project)
    try:
        note = Note.read(project)
    except OutdatedError:
        note = None
    with work_folder(project) as work:
        for name in (FILE, f"{FILE}-wal"):
            if (project / name).exists():
                shutil.copy(project / name, work)
        said, rows, meta = _read(project, work / FILE)
        if isinstance(error, DamagedError):  # else the rows are as they were written
            said += _embed_again(project, rows, meta, embed)
        if note and note.images and not rows["images"]:
            raise InputError(
                f"{project / FILE} cannot be repaired (no image can be read with its class); restore a backup."
            )
        now = _write(rows, meta, 1 + max(int(meta["generation"]), note.generation if note else 0), work / "new")
        kept = _exchange(project, work / "new", now)
    if note and (now.classes, now.images) != (note.classes, note.images):
        said.append(f"There were {note.classes} classes with {note.images} images.")
    said.append(f"The project has {now.classes} classes with {now.images} images; the database as it was is in {kept}.")
    return said


def _refuse_in_use(project: Path) -> None:
    """Who has the database open would go on with the old one. It holds byte 128 of the index (SQLite's WAL locks)."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        import fcntl

        with open(project / f"{FILE}-shm", "rb+") as index:
            try:
                fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)
            except OSError:
                raise InputError(f"Another process has {project} open; end it before the repair.") from None


def _read(project: Path, database: Path) -> tuple[list[str], Rows, dict[str, str]]:
    """Rows that can be read and make sense."""
    try:
        with contextlib.closing(connect(database, "rw")) as connection:
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            check_schema(connection, project)
            rows = {table: list(_scan(connection, table)) for table in expected()[1]}
        meta = {key: value for key, value in rows.pop("meta") if key not in OUTSIDE}
        check_meta(meta, project)
    except (DamagedError, sqlite3.DatabaseError, UnicodeDecodeError) as error:
        what = error.what if isinstance(error, DamagedError) else error
        raise InputError(f"{project / FILE} cannot be repaired ({what}); restore a backup.") from None
    found = len(rows["images"])
    rows["images"] = [row for row in rows["images"] if SHA256.fullmatch(row[1]) and row[4] in SUFFIX_OF]
    said = _name_again(rows)
    known = {row[0] for row in rows["classes"]}
    rows["images"] = [row for row in rows["images"] if row[2] in known]
    if lost := found - len(rows["images"]):
        said.append(f"{lost} images belong to no class any more and were left out.")
    return said, rows, meta


def _name_again(rows: Rows) -> list[str]:
    """A class whose row is lost: its images still belong together, and a person can see what they are."""
    names, known = {row[1] for row in rows["classes"]}, {row[0] for row in rows["classes"]}
    orphans = {row[2]: row for row in reversed(rows["images"]) if row[2] not in known and row[8] is None}
    for number, image in sorted(orphans.items()):
        name = next(name for n in itertools.count() if (name := f"class {number}{'*' * n}") not in names)
        names.add(name)
        rows["classes"].append([number, name, image[5], image[7], None, 0])
    if not orphans:
        return []
    return [f"The names of {len(orphans)} classes were lost; they are called class {min(orphans)} and the like now."]


def _scan(connection: sqlite3.Connection, table: str) -> Iterator[list[Any]]:
    """From the beginning to the first page that cannot be read, then from the end to the last one."""
    columns, seen = expected()[1][table], set()
    for order in ("ASC", "DESC"):
        query = f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED ORDER BY {next(iter(columns))} {order}"
        try:
            for row in connection.execute(query):
                if row[0] in seen:
                    break
                seen.add(row[0])
                if all(type(value) in kinds for value, kinds in zip(row, columns.values(), strict=True)):
                    yield list(row)
            return
        except sqlite3.DatabaseError:
            continue


def _embed_again(project: Path, rows: Rows, meta: dict[str, str], embed: Embed) -> list[str]:
    """Where there is a picture its features are made anew, and taken if the old ones are not about the same."""
    size, kept, changed, unproven = check_meta(meta, project), [], 0, 0
    for start in range(0, len(rows["images"]), _TOGETHER):
        some = rows["images"][start : start + _TOGETHER]
        pictures = [_picture(project, row) if meta["keep_images"] == "1" else None for row in some]
        fresh = iter(embed(meta["encoder"], [picture for picture in pictures if picture is not None]))
        for row, picture in zip(some, pictures, strict=True):
            old = np.frombuffer(row[6], dtype="<f4") if len(row[6]) == size else np.array([math.nan])
            if picture is not None:
                new = next(fresh).astype("<f4").ravel()
                if not np.linalg.norm(new - old) <= _SAME * np.linalg.norm(new):
                    row[6], changed = new.tobytes(), changed + 1
            elif np.isfinite(old).all():
                unproven += 1
            else:
                continue
            kept.append(row)
    lost = len(rows["images"]) - len(kept)
    rows["images"] = kept
    said = {
        f"The features of {changed} images were damaged and were made anew from the pictures.": changed,
        f"{unproven} images have no picture; their features may be damaged.": unproven,
        f"{lost} images with damaged features have no picture and were left out.": lost,
        "Names of classes, and which image is of which, may be damaged as well: look through `fscil teach list`.": 1,
    }
    return [sentence for sentence, wanted in said.items() if wanted]


def _picture(project: Path, row: list[Any]) -> bytes | None:
    try:
        return stored_content(project, row[1] + SUFFIX_OF[row[4]])
    except InputError:
        return None


def _write(rows: Rows, meta: dict[str, str], generation: int, target: Path) -> Note:
    used = {row[2] for row in rows["images"]}
    classes = [row for row in rows["classes"] if row[0] in used]
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    changes = {row[0]: row for row in rows["changes"]}
    named = {number for row in classes for number in row[3:5]} | {n for row in rows["images"] for n in row[7:9]}
    for number in named - {None} - set(changes):
        changes[number] = [number, now, "repair", "(lost)", "{}", 1]
    last = max(changes, default=0) + 1
    changes[last] = [last, now, "repair", "repaired", "{}", 0]
    with contextlib.closing(connect(target, "rwc")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(schema())
        tally = Tally(connection)
        connection.execute("BEGIN")
        transaction = Transaction(target, connection)
        for key, value in {**meta, "schema": str(VERSION), "generation": str(generation), "digest": "0"}.items():
            transaction.set_meta(key, value)
        tables = {"changes": changes.values(), "classes": [[*row[:5], generation] for row in classes]}
        for table, values in {**tables, "images": rows["images"]}.items():
            marks = ", ".join("?" * len(expected()[1][table]))
            # What is there twice, by a damaged name or hash, stays once.
            connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", values)
        note = transaction.carry_on(tally)
        connection.execute("COMMIT")
    return note


def _exchange(project: Path, new: Path, note: Note) -> Path:
    """Killed in between, the project is refused once more and the old database is in the trash."""
    places = (project / "trash" / f"database-{number}" for number in itertools.count(1))
    kept = next(place for place in places if not os.path.lexists(place))
    kept.mkdir(parents=True)
    for name in (FILE, f"{FILE}-wal", NOTE):
        if (project / name).exists():
            shutil.copy2(project / name, kept)
    for name in (f"{FILE}-wal", f"{FILE}-shm"):  # a log would be read into the new database
        (project / name).unlink(missing_ok=True)
    os.replace(new, project / FILE)
    flush_folder(project)
    note.write(project)
    return kept

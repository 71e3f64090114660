"""What is looked at before a project's database is trusted: its schema, SQLite's own checks, every row, its note.

A database may come from a stranger or from a bad disk. Nothing in it is run: SQLite's table of contents is read before
any other, and must be that of a project.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.data.images import SUFFIX_OF
from fscil.teach.project.note import NOTE, Note, OutdatedError
from fscil.teach.project.tally import OUTSIDE, VERSION, described, expected, row_hash, total

FILE = "project.sqlite"
SHA256 = re.compile("[0-9a-f]{64}")
_REFERENCE = {"kind": str, "name": str, "sha256": str, "image_size": int, "blocks": list, "dim": int}
_TOGETHER = 500  # rows
_LARGEST_FEATURES = 2**24  # numbers of one image


@dataclass(frozen=True)
class Contents:
    now: Note
    version: int
    meta: dict[str, str]
    pictures: list[str]  # names of the image files of all rows; none where only features are kept


def inspect(connection: sqlite3.Connection, project: Path, note: Note | None) -> Contents:
    """What the database holds; refuses one that is not sound, not a project, or older than its note."""
    connection.execute("BEGIN")  # all that is read is of one moment
    try:
        contents = read_contents(connection, project)
    finally:
        connection.execute("ROLLBACK")
    now, digest = contents.now, contents.meta.get("digest")
    if digest != now.digest and (digest or contents.version >= VERSION):
        raise DamagedError(project, "its content is not what was written")
    _compare(now, note, project, contents.version)
    return contents


def read_contents(connection: sqlite3.Connection, project: Path) -> Contents:
    version = check_schema(connection, project)
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise DamagedError(project, str(found).splitlines()[-1])
    rows = {table: _rows(connection, project, table) for table in ("meta", "changes", "classes")}
    meta = dict(rows["meta"])
    rows["meta"] = [row for row in rows["meta"] if row[0] not in OUTSIDE]
    size = check_meta(meta, project)
    digest = sum(row_hash(table, *row) for table in rows for row in rows[table])
    classes = sum(row[4] is None for row in rows["classes"])
    images, pictures = 0, []
    cursor = connection.execute(f"SELECT {', '.join(expected()[1]['images'])} FROM images NOT INDEXED")
    while some := cursor.fetchmany(_TOGETHER):
        _check_types(some, project, "images")
        digest += sum(row_hash("images", *row) for row in some)
        pictures += _check_images(some, size, project)
        images += sum(row[-1] is None for row in some)
    now = Note(int(meta["generation"]), classes, images, total(digest))
    return Contents(now, version, meta, pictures if meta["keep_images"] == "1" else [])


class DamagedError(InputError):
    def __init__(self, project: Path, what: str) -> None:
        what = "".join(c if c.isprintable() else " " for c in what)[:120]  # SQLite quotes what it stumbled over
        super().__init__(
            f"{project / FILE} is not a readable project ({what}); restore it from a copy or backup, or let "
            f"`fscil teach check {project} --repair` save what can be saved."
        )
        self.what = what


def check_schema(connection: sqlite3.Connection, project: Path) -> int:
    """The version; before it, that there is nothing but plain tables where it is read from."""
    found, ours = described(connection), expected()[0]
    active = [row for row in found - ours if row[0] not in ("table", "index") or "VIRTUAL" in row[3].upper()]
    lacking = {row[1] for row in ours - found}
    if not active and "meta" not in lacking:
        text = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        version = int(text[0]) if text and re.fullmatch("[0-9]{1,9}", str(text[0])) else 0
        if not 1 <= version <= VERSION:
            raise InputError(
                f"{project} was made by another version of fscil (project format {version}, this one reads up to "
                f"{VERSION}); install that version."
            )
    foreign = sorted(active or found - ours)
    if foreign:
        kind, name = foreign[0][0], "".join(c if c.isprintable() else "\ufffd" for c in foreign[0][1][:60])
        raise DamagedError(project, f"it has the {kind} '{name}', which is not that of a project")
    if lacking:
        raise DamagedError(project, f"'{min(lacking)}' is missing")
    return version


def _rows(connection: sqlite3.Connection, project: Path, table: str) -> list[Any]:
    rows = connection.execute(f"SELECT {', '.join(expected()[1][table])} FROM {table} NOT INDEXED").fetchall()
    _check_types(rows, project, table)
    return rows


def _check_types(rows: Iterable[tuple[Any, ...]], project: Path, table: str) -> None:
    """SQLite takes any type in any column."""
    columns = expected()[1][table]
    for kinds in {tuple(map(type, row)) for row in rows}:
        for (name, allowed), kind in zip(columns.items(), kinds, strict=True):
            if kind not in allowed:
                raise DamagedError(project, f"the column {name} of {table} holds {kind.__name__} values")


def check_meta(fields: dict[str, str], project: Path) -> int:
    """The number of bytes of one image's features."""
    try:
        what = "generation"
        if not re.fullmatch("[0-9]{1,18}", fields["generation"]) or fields["keep_images"] not in ("0", "1"):
            raise ValueError
        what = "threshold"
        if not all(-1 <= float(fields[key]) <= 1 for key in ("threshold", "level") if key in fields):
            raise ValueError
        if "false_alarms" in fields and not 0 <= float(fields["false_alarms"]) < 1:
            raise ValueError
        what = "encoder"
        reference = json.loads(fields["encoder"])
        if set(reference) != set(_REFERENCE) or any(type(reference[k]) is not kind for k, kind in _REFERENCE.items()):
            raise ValueError
        if any(type(block) is not int for block in reference["blocks"]) or os.sep in reference["sha256"]:
            raise ValueError
        numbers = (1 + len(reference["blocks"])) * reference["dim"]
        if not (1 <= numbers <= _LARGEST_FEATURES and 1 <= reference["image_size"] <= 2**14):
            raise ValueError
    except (KeyError, ValueError, TypeError, RecursionError):
        raise DamagedError(project, f"what it says of its {what} makes no sense") from None
    return 4 * int(numbers)


def _check_images(rows: list[Any], size: int, project: Path) -> list[str]:
    """The names of the image files. Hashes become names of files, so they must be hashes."""
    names = []
    for row in rows:
        if not SHA256.fullmatch(row[1]) or row[4] not in SUFFIX_OF:
            raise DamagedError(project, "an image has no proper hash or media type")
        if len(row[6]) != size:
            raise DamagedError(project, "features have the wrong size")
        names.append(row[1] + SUFFIX_OF[row[4]])
    if not math.isfinite(float(np.abs(np.frombuffer(b"".join(row[6] for row in rows), dtype="<f4")).max(initial=0))):
        raise DamagedError(project, "features are not finite numbers")
    return names


def _compare(now: Note, note: Note | None, project: Path, version: int) -> None:
    if note is None:
        if version >= VERSION:
            logging.getLogger(__name__).warning(
                "%s is missing, so nobody can tell whether the project is complete: it has %d classes and %d images.",
                project / NOTE, now.classes, now.images,
            )  # fmt: skip
    elif now.generation < note.generation:
        raise OutdatedError(
            f"The database of {project} is older than the project: it has {_counts(now)} (generation "
            f"{now.generation}), and there were {_counts(note)} ({note.generation}). Perhaps it was copied while in "
            f"use, or without its {FILE}-wal. Bring the right one back, restore a backup, or go on from what is there: "
            f"`fscil teach check {project} --repair`."
        )
    elif now.generation == note.generation and now.digest != note.digest:
        raise DamagedError(project, f"it is not the database that {NOTE} was written for")


def _counts(note: Note) -> str:
    many = "es" if note.classes != 1 else "", "s" if note.images != 1 else ""
    return f"{note.classes} class{many[0]} and {note.images} image{many[1]}"


def look_for(pictures: list[str], project: Path) -> None:
    """Answers need no pictures, so that some are gone is said and no reason to refuse."""
    folder = project / "images"
    there = {entry.name for entry in os.scandir(folder) if _has_content(entry)} if folder.is_dir() else set()
    lost = [name for name in pictures if name not in there and not os.path.exists(project / "trash" / name)]
    if lost:
        logging.getLogger(__name__).warning(
            "%d of %d pictures are missing or empty in %s; see `fscil teach check %s`.",
            len(lost), len(pictures), folder, project,
        )  # fmt: skip


def _has_content(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat().st_size > 0
    except FileNotFoundError:  # of another process, which has given it its name since the folder was read
        return False

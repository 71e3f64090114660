"""What may be done inside one change of a project."""

import json
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError, did_you_mean
from fscil.data.images import SUFFIX_OF, ImageError
from fscil.teach.project.files import write_bytes
from fscil.teach.project.note import Note
from fscil.teach.project.pictures import Picture
from fscil.teach.project.tally import Tally, total

SHOWN_NAMES = 20  # of a long list
WRITERS = 8  # files that wait for the disk at the same time


class Transaction:
    """A change that is under way; `Store.change` begins and commits it."""

    def __init__(self, project: Path, connection: sqlite3.Connection) -> None:
        self._project, self._connection = project, connection
        self.generation = int(self.one("SELECT value FROM meta WHERE key = 'generation'") or 0) + 1
        self.number, self.now, self.cancelled = 0, "", False

    def run(self, query: str, *values: Any) -> sqlite3.Cursor:
        return self._connection.execute(query, values)

    def one(self, query: str, *values: Any) -> Any:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def touch(self, class_id: int) -> None:
        self.run("UPDATE classes SET touched = ? WHERE id = ?", self.generation, class_id)

    def add_class(self, name: str) -> int:
        row = self.run(
            "INSERT INTO classes (name, created, added_by, touched) VALUES (?, ?, ?, ?)",
            name, self.now, self.number, self.generation,
        )  # fmt: skip
        assert row.lastrowid is not None
        return row.lastrowid

    def add_image(self, class_id: int, picture: Picture, features: bytes) -> None:
        self.run(
            "INSERT INTO images (sha256, class_id, file, media, added, features, added_by) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            picture.id, class_id, picture.file, picture.media, self.now, features, self.number,
        )  # fmt: skip

    def keep_images(self, pictures: list[Picture]) -> None:
        """Write their files, by several threads: a disk flushes many in hardly more time than one. They and their names
        are on disk before the commit that relies on them.
        """
        with ThreadPoolExecutor(WRITERS) as pool:
            for _ in pool.map(self._write_image, pictures):
                pass
        folder = self._project / "images"
        if folder.is_dir():
            flush_folder(folder)

    def _write_image(self, picture: Picture) -> None:
        path = image_path(self._project, picture.id, picture.media)
        if not path.exists():
            try:
                content = picture.read_again()
            except ImageError as error:
                raise InputError(f"{picture.file}: {error}; nothing was learned.") from None
            write_bytes(path, content)

    def class_id(self, name: str) -> int:
        found = self.one("SELECT id FROM classes WHERE name = ? AND removed_by IS NULL", name)
        if found is None:
            raise no_such_class(name, [row[0] for row in self.run("SELECT name FROM classes WHERE removed_by IS NULL")])
        return int(found)

    def set_meta(self, key: str, value: str | None) -> None:
        self.run("DELETE FROM meta WHERE key = ?", key)
        if value is not None:
            self.run("INSERT INTO meta VALUES (?, ?)", key, value)

    def describe(self, what: str, **detail: Any) -> None:
        """What the history shows, and what undoing will need."""
        self.run("UPDATE changes SET what = ?, detail = ? WHERE number = ?", what, json.dumps(detail), self.number)

    def carry_on(self, tally: Tally) -> Note:
        """The last step: the digest after this change."""
        before = self.one("SELECT value FROM meta WHERE key = 'digest'")
        self.set_meta("digest", total(int(before, 16) + tally.change))
        return self.noted()

    def noted(self) -> Note:
        """What the database holds now."""
        meta = dict(self.run("SELECT key, value FROM meta WHERE key IN ('generation', 'digest')"))
        classes, images = (
            self.one(f"SELECT count(*) FROM {table} WHERE removed_by IS NULL") for table in ("classes", "images")
        )
        return Note(int(meta["generation"]), classes, images, meta["digest"])

    def cancel(self) -> None:
        """Nothing is to be changed after all."""
        self.cancelled = True


def no_such_class(name: str, names: list[str]) -> InputError:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    known = f"It knows: {', '.join(names[:SHOWN_NAMES]) or 'no class yet'}{more}."
    hint = did_you_mean(name, names)
    return InputError(f"There is no class '{name}' in the project{f'; {hint}' if hint else '.'} {known}")


def image_path(project: Path, sha256: str, media: str) -> Path:
    return project / "images" / f"{sha256}{SUFFIX_OF[media]}"


def flush_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows keeps names safe by itself and cannot open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

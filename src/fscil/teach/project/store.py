"""A project on disk: SQLite for what is known, one file per image. Every change is one transaction.

Image files are written and flushed before the transaction that names them commits, inside the writer's lock; a
process that dies leaves at most files that nothing names, which the next writer sweeps away. Readers never wait (WAL).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.teach.project.transaction import Transaction, flush_folder, image_path

FILE = "project.sqlite"
VERSION = 1  # of the tables in schema.sql
WAIT_SECONDS = 20.0  # for another writer
UNDO_DEPTH = 20  # changes that can be undone; what they removed is kept until then


class Store:
    """One connection for reading and one for writing, each used by one thread at a time: a thread that asks does not
    wait for one that is flushing files to disk.
    """

    def __init__(self, path: Path, *, readonly: bool) -> None:
        self.path, self.readonly = path, readonly
        self._reading, self._writing = threading.RLock(), threading.RLock()
        database = path / FILE
        if not database.is_file():
            raise InputError(f"{path} is not a project; make one with `fscil teach init {path}`.")
        try:
            self._reader = _connect(database, readonly=True)
            version = int(self.meta("schema") or 0)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise InputError(f"{database} is not a readable project ({error}); restore it from a copy.") from None
        if version != VERSION:
            self._reader.close()
            raise InputError(
                f"{path} was made by another version of fscil (project format {version}, this one reads "
                f"{VERSION}); install that version."
            )
        self._writer: sqlite3.Connection | None = None
        if not readonly:
            try:
                self._writer = _connect(database, readonly=False)
            except sqlite3.OperationalError as error:
                self._reader.close()
                raise InputError(f"{path} cannot be written ({error}); open it for reading only.") from None
            self._sweep()

    @classmethod
    def create(cls, path: Path, meta: dict[str, str]) -> Store:
        """Make the database under another name and rename it when it is complete."""
        temporary = path / f".project-{os.getpid()}.sqlite"
        rows = {**meta, "schema": str(VERSION), "generation": "0"}
        try:
            connection = _connect(temporary, readonly=False)
            connection.executescript(Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            connection.close()  # folds the write-ahead log into the file
        except sqlite3.OperationalError as error:
            raise InputError(f"No project can be made in {path}: {error}; choose another folder.") from None
        os.replace(temporary, path / FILE)
        flush_folder(path)
        return cls(path, readonly=False)

    def close(self) -> None:
        with self._writing, self._reading:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def all(self, query: str, *values: Any) -> list[Any]:
        with self._reading:
            try:
                return self._reader.execute(query, values).fetchall()
            except sqlite3.ProgrammingError as error:
                if "closed" in str(error):
                    raise InputError(f"The project {self.path} was closed; open it again.") from None
                raise

    def meta(self, key: str) -> str | None:
        rows = self.all("SELECT value FROM meta WHERE key = ?", key)
        return rows[0][0] if rows else None

    @property
    def generation(self) -> int:
        return int(self.meta("generation") or 0)

    @contextlib.contextmanager
    def change(self, kind: str) -> Iterator[Transaction]:
        """One durable change: recorded in the history and visible to others when the block ends without error."""
        with self.transaction() as transaction:
            number = transaction.one("SELECT coalesce(max(number), 0) + 1 FROM changes")
            transaction.number = number
            transaction.now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            transaction.run(
                "INSERT INTO changes (number, at, kind, what, detail) VALUES (?, ?, ?, '', '{}')",
                number, transaction.now, kind,
            )  # fmt: skip
            yield transaction
            # What can no longer be undone is gone for good.
            for table in ("images", "classes"):
                transaction.run(f"DELETE FROM {table} WHERE removed_by <= ?", number - UNDO_DEPTH)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        if self._writer is None:
            raise InputError(f"The project {self.path} is open for reading only; open it for writing.")
        with self._writing:
            self._begin(self._writer)
            transaction = Transaction(self.path, self._writer)
            try:
                yield transaction
                if transaction.cancelled:
                    self._writer.execute("ROLLBACK")
                    return
                transaction.set_meta("generation", str(transaction.generation))
                self._writer.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise InputError(
                        f"The project {self.path} could not be written: {error}; nothing changed."
                    ) from None
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Several queries that see one and the same state."""
        with self._reading:
            self.all("BEGIN")
            try:
                yield
            finally:
                self.all("COMMIT")

    def _begin(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise InputError(
                    f"Another process has been writing to {self.path} for {WAIT_SECONDS:.0f} s; try again later."
                ) from None
            raise InputError(f"The project {self.path} cannot be written: {error}; check its permissions.") from None
        except sqlite3.ProgrammingError:
            raise InputError(f"The project {self.path} was closed; open it again.") from None

    def _sweep(self) -> None:
        """Remove image files that no row names: what a killed process wrote, and what can no longer be undone."""
        folder = self.path / "images"
        if not folder.is_dir():
            return
        assert self._writer is not None
        with self._writing:
            try:
                self._writer.execute("BEGIN IMMEDIATE")  # no writer may be between its files and its commit
            except sqlite3.OperationalError:
                return  # someone is writing: another time
            try:
                rows = self._writer.execute("SELECT sha256, media FROM images")
                named = {image_path(self.path, *row).name for row in rows}
                for entry in os.scandir(folder):
                    if entry.name not in named:
                        with contextlib.suppress(OSError):
                            os.unlink(entry.path)
            finally:
                self._writer.execute("ROLLBACK")


def claim(path: Path) -> None:
    """Make the folder of a new project."""
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file; choose a folder for the project.")
        # What an interrupted `create` left behind does not count.
        if path.is_dir() and any(not e.name.startswith(".project-") and e.name != "state" for e in path.iterdir()):
            known = (path / FILE).exists()
            raise InputError(
                f"{path} is a project already; open it, or choose another folder."
                if known
                else f"{path} is not empty; choose an empty or new folder for the project."
            )
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made a project: {error.strerror}; choose another folder.") from None


def _connect(database: Path, readonly: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        database, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    if not readonly:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    if readonly:
        connection.execute("PRAGMA query_only = ON")
    return connection

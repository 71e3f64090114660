"""A project on disk: SQLite for what is known, one file per image. Every change is one transaction.

Image files are written and flushed before the transaction that names them commits, inside the writer's lock; a
process that dies leaves at most files that nothing names, which go to the trash later. Readers never wait (WAL).
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.teach.project.files import cause
from fscil.teach.project.transaction import Transaction, flush_folder, image_path
from fscil.teach.project.trash import tidy

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
        database = self._database = path / FILE
        for place, right in ((path, os.X_OK), (database, os.R_OK)):
            if os.path.exists(place) and not os.access(place, right):
                raise InputError(f"You have no right to read {place}; ask its owner for it.")
        if not database.is_file():
            raise InputError(f"{path} is not a project; make one with `fscil teach init {path}`.")
        _refuse_links(path)
        try:
            self._reader, self._frozen = _connect_to_read(database)
            version = int(self.meta("schema") or 0)
        except (sqlite3.DatabaseError, ValueError) as error:
            # SQLite was hindered, and the database may be sound; ERROR: it lacks a table.
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                log = f"reading its {FILE}-wal takes writing, and " if _stamp(database)[0] > 0 else ""
                raise InputError(f"The project {path} cannot be opened: {log}{cause(error, path)}.") from None
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
                if not (os.access(database, os.W_OK) and os.access(path, os.W_OK)):
                    raise PermissionError(errno.EACCES, "")
                self._writer = _connect(database, "rw")
                self._writer.execute("PRAGMA journal_mode = WAL")
            except (sqlite3.OperationalError, OSError) as error:
                self._reader.close()
                raise InputError(f"The project {path} cannot be written: {cause(error, path)}.") from None
            self._sweep(self._writer)

    @classmethod
    def create(cls, path: Path, meta: dict[str, str]) -> Store:
        """Make the database under another name and rename it when it is complete."""
        temporary = path / f".project-{os.getpid()}.sqlite"
        rows = {**meta, "schema": str(VERSION), "generation": "0"}
        try:
            connection = _connect(temporary, "rwc")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            connection.close()  # folds the write-ahead log into the file
        except sqlite3.OperationalError as error:
            raise InputError(f"No project can be made in {path}: {cause(error, path)}.") from None
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
                # What is read without locks is read anew once somebody has written.
                if self._frozen and not self._reader.in_transaction and self._frozen != _stamp(self._database):
                    self._reader.close()
                    self._reader, self._frozen = _connect_to_read(self._database)
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
                if isinstance(error, sqlite3.OperationalError | OSError):
                    raise InputError(f"{self.path} was not changed: {cause(error, self.path)}.") from None
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
            raise InputError(f"The project {self.path} cannot be written: {cause(error, self.path)}.") from None
        except sqlite3.ProgrammingError:
            raise InputError(f"The project {self.path} was closed; open it again.") from None

    def _sweep(self, writer: sqlite3.Connection) -> None:
        with contextlib.suppress(sqlite3.OperationalError, OSError):  # someone is writing, or no room: another time
            writer.execute("BEGIN IMMEDIATE")  # no writer may be between its files and its commit
            try:
                rows = writer.execute("SELECT sha256, media FROM images")
                tidy(self.path, {image_path(self.path, *row).name for row in rows})
            finally:
                writer.execute("ROLLBACK")


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
        _refuse_links(path)
    except OSError as error:
        raise InputError(f"{path} cannot be made a project: {error.strerror}; choose another folder.") from None


def _refuse_links(path: Path) -> None:
    """A project writes and moves files in its own folder only, never where a link leads."""
    for name in ("images", "trash", "state", FILE, f"{FILE}-wal", f"{FILE}-shm"):
        if (path / name).is_symlink():
            raise InputError(f"{path / name} is a symbolic link; put what it leads to in its place, or remove it.")


def _stamp(database: Path) -> tuple[int, int]:
    """Size of the write-ahead log (-1: none) and time of the database: they differ once somebody has written."""
    size = -1
    with contextlib.suppress(FileNotFoundError):
        size = os.stat(f"{database}-wal").st_size
    return size, database.stat().st_mtime_ns


def _connect_to_read(database: Path) -> tuple[sqlite3.Connection, tuple[int, int] | None]:
    """A connection that leaves nothing behind, and the database's stamp if it is read without locks.

    Beside a log SQLite needs an index file. Who may write makes it and removes it at the end (with mode=ro it would
    stay); others use that of a process at work. Without a log the database is whole by itself.
    """
    stamp, writable = _stamp(database), os.access(database, os.W_OK) and os.access(database.parent, os.W_OK)
    if writable or stamp[0] >= 0:
        try:
            connection = _connect(database, "rw" if writable else "ro")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT 1 FROM meta").fetchone()
            return connection, None
        except sqlite3.OperationalError as error:  # no room or no right for the index
            if stamp[0] > 0 or error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise
    return _connect(database, "ro&immutable=1"), stamp


def _connect(database: Path, mode: str) -> sqlite3.Connection:
    address = f"{database.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection

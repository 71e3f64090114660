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
from fscil.teach.project import connection
from fscil.teach.project.connection import connect, connect_to_read, is_damage, open_checked, stamp_of
from fscil.teach.project.files import cause
from fscil.teach.project.inspection import FILE, DamagedError, read_contents
from fscil.teach.project.leftovers import clear
from fscil.teach.project.making import WORK, refuse_foreign
from fscil.teach.project.note import NOTE, Note, drop_pending
from fscil.teach.project.tally import VERSION, Tally, schema, total
from fscil.teach.project.transaction import Transaction, image_path
from fscil.teach.project.trash import tidy

UNDO_DEPTH = 20  # changes that can be undone; what they removed is kept until then


class Store:
    """One connection for reading and one for writing, each used by one thread at a time: a thread that asks does not
    wait for one that is flushing files to disk.
    """

    def __init__(self, path: Path, *, readonly: bool) -> None:
        self.path, self.readonly = path, readonly
        self._reading, self._writing = threading.RLock(), threading.RLock()
        database = self._database = path / FILE
        if os.path.isfile(path):  # which nobody may enter
            raise InputError(f"{path} is a file; give the folder of a project.")
        for place, right in ((path, os.X_OK), (database, os.R_OK)):
            if os.path.exists(place) and not os.access(place, right):
                raise InputError(f"You have no right to read {place}; ask its owner for it.")
        try:
            found = database.is_file()
        except PermissionError:
            raise InputError(f"You have no right to enter a folder above {path}; ask its owner for it.") from None
        if not found:
            raise InputError(f"{path} is not a project; make one with `fscil teach init {path}`.")
        refuse_foreign(path)
        self._opened = database.stat()
        if not readonly and self._opened.st_nlink > 1:
            raise InputError(
                f"{database} is one file with another one elsewhere (a hard link), which every change would change as "
                f"well; put a copy in its place."
            )
        try:
            self._reader, self._frozen = open_checked(path)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: SQLite quotes what it stumbled over
            # SQLite was hindered, and the database may be sound; ERROR: it lacks a table. No code: text that is none.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
                log = f"reading its {FILE}-wal takes writing, and " if stamp_of(database)[0] > 0 else ""
                raise InputError(f"The project {path} cannot be opened: {log}{cause(error, path)}.") from None
            raise DamagedError(path, str(error)) from None
        self._writer: sqlite3.Connection | None = None
        if not readonly:
            try:
                if not (os.access(database, os.W_OK) and os.access(path, os.W_OK)):
                    raise PermissionError(errno.EACCES, "")
                self._writer = connect(database, "rw")
                self._writer.execute("PRAGMA journal_mode = WAL")
                self._tally = Tally(self._writer)
                self._upgrade(self._writer)
            except (sqlite3.OperationalError, OSError) as error:
                self.close()
                raise InputError(f"The project {path} cannot be written: {cause(error, path)}.") from None
            self._sweep(self._writer)

    @staticmethod
    def create(folder: Path, meta: dict[str, str]) -> Store:
        """In a folder that nobody uses yet, see `assembled`."""
        try:
            database = connect(folder / FILE, "rwc")
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(schema())
            tally = Tally(database)
            rows = {**meta, "schema": str(VERSION), "generation": "0"}
            database.execute("BEGIN")
            database.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            note = Note(0, 0, 0, total(tally.change))
            database.execute("INSERT INTO meta VALUES ('digest', ?)", (note.digest,))
            database.execute("COMMIT")
            database.close()  # folds the write-ahead log into the file
            note.write(folder)
        except (sqlite3.OperationalError, OSError) as error:
            raise InputError(f"No project can be made in {folder}: {cause(error, folder)}.") from None
        return Store(folder, readonly=False)

    def close(self) -> None:
        with self._writing, self._reading:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def all(self, query: str, *values: Any) -> list[Any]:
        with self._reading:
            try:
                if not self._reader.in_transaction:
                    self._refuse_replaced()
                # What is read without locks is read anew once somebody has written.
                if self._frozen and not self._reader.in_transaction and self._frozen != stamp_of(self._database):
                    self._reader.close()
                    self._reader, self._frozen = connect_to_read(self._database)
                return self._reader.execute(query, values).fetchall()
            except sqlite3.ProgrammingError as error:
                if "closed" in str(error):
                    raise InputError(f"The project {self.path} was closed; open it again.") from None
                raise
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    raise DamagedError(self.path, str(error)) from None
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
            self._refuse_replaced()
            self._begin(self._writer)
            pending = None
            try:
                self._tally.change = 0
                transaction = Transaction(self.path, self._writer)
                yield transaction
                if transaction.cancelled:
                    self._writer.execute("ROLLBACK")
                    return
                transaction.set_meta("generation", str(transaction.generation))
                note = transaction.carry_on(self._tally)
                pending = note.prepare(self.path)
                self._writer.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
                if pending is not None:
                    pending.unlink(missing_ok=True)
                if is_damage(error):
                    raise DamagedError(self.path, str(error)) from None
                if isinstance(error, sqlite3.OperationalError | OSError):
                    raise InputError(f"{self.path} was not changed: {cause(error, self.path)}.") from None
                raise
            self._publish(self._writer, note, pending)

    def _publish(self, writer: sqlite3.Connection, note: Note, pending: Path) -> None:
        """The note of a change that is committed, unless another process has made a later one. Should this fail, the
        database is newer than its note, which is lawful.
        """
        with contextlib.suppress(sqlite3.Error, OSError):
            writer.execute("BEGIN IMMEDIATE")
            try:
                (generation,) = writer.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
                if generation == str(note.generation):
                    os.replace(pending, self.path / NOTE)
                else:
                    pending.unlink()
            finally:
                writer.execute("ROLLBACK")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Several queries that see one and the same state."""
        with self._reading:
            self.all("BEGIN")
            try:
                yield
            finally:
                self.all("COMMIT")

    def _refuse_replaced(self) -> None:
        """What is written to a database that has lost its name, as when a backup was restored, is lost with it."""
        with contextlib.suppress(OSError):
            if os.path.samestat(self._opened, self._database.stat()):
                return
        raise InputError(f"The database of {self.path} was removed or replaced while it was open; open it again.")

    def _begin(self, writer: sqlite3.Connection) -> None:
        try:
            writer.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                wait = f"{connection.WAIT_SECONDS:.0f} s"
                raise InputError(f"Another process has been writing to {self.path} for {wait}; try again.") from None
            raise InputError(f"The project {self.path} cannot be written: {cause(error, self.path)}.") from None
        except sqlite3.ProgrammingError:
            raise InputError(f"The project {self.path} was closed; open it again.") from None

    def _upgrade(self, writer: sqlite3.Connection) -> None:
        """A project of version 1 gets a digest. The note goes first: with the digest alone it would look lost."""
        if self.meta("schema") == str(VERSION):
            return
        writer.execute("BEGIN IMMEDIATE")
        try:
            note = read_contents(writer, self.path).now
            note.write(self.path)
            for key, value in (("digest", note.digest), ("schema", str(VERSION))):
                Transaction(self.path, writer).set_meta(key, value)
            writer.execute("COMMIT")
        except BaseException:
            writer.execute("ROLLBACK")
            raise

    def _sweep(self, writer: sqlite3.Connection) -> None:
        """What processes that died have left."""
        clear(self.path, WORK)
        with contextlib.suppress(sqlite3.OperationalError, OSError):  # someone is writing, or no room: another time
            writer.execute("BEGIN IMMEDIATE")  # no writer may be between its files and its commit
            try:
                drop_pending(self.path)
                now = Transaction(self.path, writer).noted()
                if Note.read(self.path) != now:
                    now.write(self.path)
                rows = writer.execute("SELECT sha256, media FROM images")
                tidy(self.path, {image_path(self.path, *row).name for row in rows})
            finally:
                writer.execute("ROLLBACK")

"""Connections to a project's database: to read it without leaving a trace, and checked before it is trusted."""

import contextlib
import os
import sqlite3
from pathlib import Path

from fscil.teach.project.inspection import FILE, DamagedError, inspect, look_for
from fscil.teach.project.note import Note

WAIT_SECONDS = 20.0  # for another writer


def is_damage(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def open_checked(path: Path) -> tuple[sqlite3.Connection, tuple[int, int] | None]:
    """Refuses a database that cannot be trusted, and leaves it and its log as they are."""
    database, note = path / FILE, Note.read(path)  # the note first: the database may only be newer
    if database.stat().st_size < 512:  # SQLite would throw its log away
        raise DamagedError(path, "the file is cut off")
    probe = None
    if stamp_of(database)[0] > 0 and _writable(database):
        # A connection that may write folds the log into the database when it closes, or drops it if it is damaged.
        probe = connect(database, "ro")
        connection, frozen = probe, None
    else:
        connection, frozen = connect_to_read(database)
    try:
        look_for(inspect(connection, path, note).pictures, path)
        return (connection, frozen) if probe is None else connect_to_read(database)
    except BaseException:
        connection.close()
        raise
    finally:
        if probe is not None:
            probe.close()


def stamp_of(database: Path) -> tuple[int, int]:
    """Size of the write-ahead log (-1: none) and time of the database: they differ once somebody has written."""
    size = -1
    with contextlib.suppress(FileNotFoundError):
        size = os.stat(f"{database}-wal").st_size
    return size, database.stat().st_mtime_ns


def _writable(database: Path) -> bool:
    return os.access(database, os.W_OK) and os.access(database.parent, os.W_OK)


def connect_to_read(database: Path) -> tuple[sqlite3.Connection, tuple[int, int] | None]:
    """A connection that leaves nothing behind, and the database's stamp if it is read without locks.

    Beside a log SQLite needs an index file. Who may write makes it and removes it at the end (with mode=ro it would
    stay); others use that of a process at work. Without a log the database is whole by itself.
    """
    stamp, writable = stamp_of(database), _writable(database)
    if writable or stamp[0] >= 0:
        try:
            connection = connect(database, "rw" if writable else "ro")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            return connection, None
        except sqlite3.OperationalError as error:  # no room or no right for the index
            if stamp[0] > 0 or error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise
    return connect(database, "ro&immutable=1"), stamp


def connect(database: Path, mode: str) -> sqlite3.Connection:
    address = f"{database.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection

"""A digest of a project's rows that every change carries on, so that a commit does not read the project again.

It is a sum of the rows' hashes: a row that comes is added, one that goes is taken off, and the order does not matter.
"""

import functools
import hashlib
import re
import sqlite3
from pathlib import Path
from typing import Any

VERSION = 2  # of a project: the tables of schema.sql, with a digest among the meta rows (1: without)
_MODULUS = 2**256
# Not part of the digest: itself, and the version, so that a project of version 1 has the digest it will have.
OUTSIDE = ("digest", "schema")


def schema() -> str:
    return Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


@functools.cache
def expected() -> tuple[frozenset[tuple[str, ...]], dict[str, dict[str, tuple[type, ...]]]]:
    """What SQLite's own table says of a project, and the columns of the tables with the types they may hold."""
    twin = sqlite3.connect(":memory:")
    twin.executescript(schema())
    tables: dict[str, dict[str, tuple[type, ...]]] = {}
    for (name,) in twin.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
        kinds = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
        tables[name] = {
            column: (kinds[declared],) if required or key else (kinds[declared], type(None))
            for _, column, declared, required, _, key in twin.execute(f"PRAGMA table_info({name})")
        }
    entries = described(twin)
    twin.close()
    return entries, tables


def described(connection: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    """Type, name, table and definition of everything in a database; how a definition is set out does not matter."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return frozenset((*map(str, row[:3]), _plain(str(row[3]))) for row in rows)


def _plain(sql: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", "", sql).split())


def row_hash(table: str, *values: Any) -> int:
    """Every value with its type and length, so that no two rows read the same."""
    parts = [table.encode()]
    for value in values:
        if isinstance(value, bytes):
            parts += [b"b%d:" % len(value), value]
        elif isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            parts += [b"t%d:" % len(text), text]
        else:
            parts.append(f"{type(value).__name__}:{value};".encode())
    return int.from_bytes(hashlib.sha256(b"".join(parts)).digest(), "big")


def total(hashes: int) -> str:
    return f"{hashes % _MODULUS:064x}"


class Tally:
    """Counts along with a connection's changes, whoever makes them: triggers of the connection's own (SQLite's TEMP
    schema, not in the file) report every row, also those that go with another one.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.change = 0
        connection.create_function("tally", -1, self._count)
        for table, columns in expected()[1].items():
            new, old = (f"'{table}', " + ", ".join(f"{row}.{name}" for name in columns) for row in ("NEW", "OLD"))
            for event, calls, row in (
                ("INSERT", f"tally(1, {new})", "NEW"),
                ("DELETE", f"tally(-1, {old})", "OLD"),
                ("UPDATE", f"tally(1, {new}), tally(-1, {old})", "NEW"),
            ):
                only = f"WHEN {row}.key NOT IN {OUTSIDE}" if table == "meta" else ""
                connection.execute(
                    f"CREATE TEMP TRIGGER tally_{table}_{event} AFTER {event} ON main.{table} {only} "
                    f"BEGIN SELECT {calls}; END"
                )

    def _count(self, sign: int, table: str, *values: Any) -> None:
        self.change += sign * row_hash(table, *values)

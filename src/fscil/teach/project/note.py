"""`project.json`: what the database must hold, kept outside of it.

A database cannot know that it is older than it should be: copied without its write-ahead log, or with a damaged one, it
is sound and lacks the last changes. The note is written after each commit and before the change is acknowledged, so the
database is never older than its note; newer it may be (a process was killed between the two).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from fscil.core.errors import InputError

NOTE = "project.json"
_MOST = 10_000  # characters; what is longer is no note
_PENDING = re.compile(r"\.project-fscil-[0-9a-f]{8}\.json")


class OutdatedError(InputError):
    """The database is sound by itself; it is older than its note, or there is no telling."""


@dataclass(frozen=True)
class Note:
    generation: int
    classes: int
    images: int
    digest: str

    @classmethod
    def read(cls, project: Path) -> Note | None:
        """None where there is none: the project is older than notes, or its note was lost."""
        path = project / NOTE
        try:
            with path.open(encoding="utf-8") as file:
                fields = json.loads(file.read(_MOST))
            note = cls(**fields)
            if not isinstance(note.digest, str) or any(
                type(number) is not int for number in (note.generation, note.classes, note.images)
            ):
                raise ValueError("wrong types")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); ask its owner for the right to.") from None
        except (ValueError, TypeError, RecursionError):
            raise OutdatedError(
                f"{path} is damaged, so nobody can tell whether the project is complete; restore a backup, or let "
                f"`fscil teach check {project} --repair` write it anew."
            ) from None
        return note

    def prepare(self, project: Path) -> Path:
        """On disk under another name, so that after the commit only a rename can fail."""
        path = project / f".project-fscil-{secrets.token_hex(4)}.json"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(json.dumps(asdict(self), indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        return path

    def write(self, project: Path) -> None:
        os.replace(self.prepare(project), project / NOTE)


def drop_pending(project: Path) -> None:
    """Under the writer's lock: those of processes that died before they could rename them."""
    for entry in os.scandir(project):
        if _PENDING.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)

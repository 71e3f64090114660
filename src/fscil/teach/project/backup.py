"""A project in one file: made while the project is in use, checked before it counts, and checked when it comes back.

The file is a plain zip of what stands in the project's folder, not compressed: pictures and features are already.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from fscil.core.errors import InputError
from fscil.teach.project.connection import connect, connect_to_read
from fscil.teach.project.files import write_whole
from fscil.teach.project.inspection import FILE, Contents, DamagedError, inspect
from fscil.teach.project.leftovers import beside, clear, workplace
from fscil.teach.project.making import WEIGHTS
from fscil.teach.project.note import NOTE, Note
from fscil.teach.project.trash import is_own, stored_content

_PLAIN = {FILE, NOTE, *(f"state/{name}" for name in WEIGHTS)}  # beside images/


def backup(project: Path, target: Path) -> Note:
    """What the file holds. Others may go on writing: it is the project as it was at one moment."""
    clear(target.parent, beside(target))
    note = Note.read(project)  # before the database, which may only be newer
    with workplace("backup") as folder:
        _copy_database(project, folder / FILE)
        contents = _inspected(folder, note)

        def write(temporary: Path) -> None:
            _pack(project, folder, contents, temporary)
            (folder / "again").mkdir()
            if unpack(temporary, folder / "again", pictures=False).now != contents.now:
                raise InputError(f"{target} was not written: what was written reads otherwise; check the disk.")

        write_whole(target, write)
    return contents.now


def _copy_database(project: Path, target: Path) -> None:
    with (
        contextlib.closing(connect_to_read(project / FILE)[0]) as source,
        contextlib.closing(connect(target, "rwc")) as copy,
    ):
        source.backup(copy)


def _pack(project: Path, folder: Path, contents: Contents, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(NOTE, json.dumps(asdict(contents.now), indent=2) + "\n")
        archive.write(folder / FILE, FILE)
        for file in sorted((project / "state").glob("*")):
            if f"state/{file.name}" in _PLAIN:
                archive.write(file, f"state/{file.name}")
        for name in contents.pictures:
            archive.writestr(f"images/{name}", stored_content(project, name))


def unpack(file: Path, folder: Path, *, pictures: bool = True) -> Contents:
    """Everything is checked on the way; `pictures`: write them too, not only check them."""
    if file.exists() and not file.is_file():  # a pipe would never end
        raise InputError(f"{file} is not a file; give one that `fscil teach backup` wrote.")
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            names = [member.filename for member in members]
            _refuse_foreign(members)
            for member in members:
                if not member.filename.startswith("images/"):
                    _write(folder / member.filename, lambda out, m=member: shutil.copyfileobj(archive.open(m), out))
                    continue
                content = archive.read(member)
                if hashlib.sha256(content).hexdigest() != Path(member.filename).name[:64]:
                    raise ValueError(f"{member.filename} is not the picture that its name says")
                if pictures:
                    _write(folder / member.filename, lambda out, c=content: out.write(c))
        note = Note.read(folder)
        contents = _inspected(folder, note)
        if contents.now != note:
            raise ValueError(f"{NOTE} is not that of its database")
        missing = {f"images/{name}" for name in contents.pictures}.symmetric_difference(
            name for name in names if name.startswith("images/")
        )
        if missing:
            raise ValueError(f"{min(missing)} is missing, or no class has it")
        return contents
    except FileNotFoundError:
        raise InputError(f"{file} does not exist; check the path.") from None
    except (zipfile.BadZipFile, ValueError, KeyError, NotImplementedError, RuntimeError, EOFError, InputError) as error:
        reason = error.what if isinstance(error, DamagedError) else str(error)
        raise InputError(f"{file} is not a whole backup of a project ({reason}); give another one.") from None


def _refuse_foreign(members: list[zipfile.ZipInfo]) -> None:
    """Exact names only, so that nothing is written elsewhere; not compressed, so that nothing grows."""
    if len({member.filename for member in members}) < len(members):
        raise ValueError("a name stands in it twice")
    for member in members:
        folder, _, name = member.filename.rpartition("/")
        known = is_own(name) and name[0] != "." if folder == "images" else member.filename in _PLAIN
        if not known or stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError(f"it holds {member.filename[:80]!r}")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ValueError(f"{member.filename} is compressed")


def _write(path: Path, write: Callable[..., object]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("xb") as out:
        write(out)
        out.flush()
        os.fsync(out.fileno())


def _inspected(folder: Path, note: Note | None) -> Contents:
    if not (folder / FILE).is_file():
        raise ValueError(f"{FILE} is missing")
    with contextlib.closing(connect(folder / FILE, "ro&immutable=1")) as connection:
        return inspect(connection, folder, note)

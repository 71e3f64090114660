"""Files that are whole or absent: written next to their target, then renamed over it."""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from fscil.core.errors import InputError

SEAL = "content_sha256"
# Names of files that are being written. Our own word is in them: eight digits alone are also how people write a date,
# and what a killed process left is deleted by its name.
_TEMPORARY = re.compile(r"\..+-fscil-[0-9a-f]{8}(\.\w+)?")
_ABANDONED = 3600.0  # seconds without a change


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path in the same folder, flush it to disk, rename it to `path`."""
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _create_next_to(path)
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise readable(error, path) from error
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def _create_next_to(path: Path) -> Path:
    """An empty file with a random name. The system applies the umask; `tempfile` would make it private to its owner."""
    while True:
        # As _TEMPORARY says. The suffix is kept: some writers (matplotlib, numpy) pick the format from it.
        temporary = path.with_name(f".{path.stem}-fscil-{secrets.token_hex(4)}{path.suffix}")
        with contextlib.suppress(FileExistsError):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
            return temporary


def write_text(path: Path, text: str) -> None:
    write_atomic(path, lambda target: target.write_text(text, encoding="utf-8"))


def write_json(path: Path, document: Any) -> None:
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """A JSON file that says the hash of its own content, so that `read_json` notices a changed digit."""
    plain = json.loads(json.dumps(document, allow_nan=False))  # as it will be read
    write_json(path, {**plain, SEAL: _content_sha256(plain)})


def read_json(path: Path) -> Any:
    """What is in a JSON file, without its seal; one that does not fit its seal is refused."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_constant)
        seal = document.pop(SEAL, None) if isinstance(document, dict) else None
        if seal is None or seal == _content_sha256(document):
            return document
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path.") from None
    except OSError as error:
        raise readable(error, Path(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); give a file that this program wrote.") from None
    raise InputError(
        f"{path} is not as it was written (its checksum differs); take a whole copy or make it again, or take "
        f"'{SEAL}' out of it if the change was meant."
    )


def _content_sha256(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _no_constant(name: str) -> Any:
    """NaN and Infinity are not JSON, are never written here, and would pass through every later comparison."""
    raise ValueError(f"it holds {name}, which is no number")


_LOCK = ".lock"
_held: dict[Path, IO[bytes]] = {}  # locks of this process, by their files, open for as long as it lives


def hold(path: Path) -> bool:
    """Lock a file for as long as this process lives; False where another has it. It may be held already.

    The system gives the lock back when the process ends, however it ends: there is nothing to clean up after a kill.
    """
    path = Path(path).resolve()
    if path in _held:
        return True
    while True:
        file = open(path, "ab")  # noqa: SIM115 - closing it would give the lock back
        if not lock(file):
            file.close()
            return False
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            _held[path] = file
            return True
        file.close()  # somebody who was refused has deleted it meanwhile: this is the lock of nothing


def lock(file: IO[bytes]) -> bool:
    """Lock an open file until it is closed; False where another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)  # it locks a byte, which must be the same one for all
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Else a file system without locks, as on some clusters: better to run there than not to.
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
    return True


def claim_folder(path: Path, *, force: bool, resume: bool = False) -> None:
    """Make an output folder and hold it until the process ends.

    One that already holds something is refused without `force` or `resume`, one that another process writes to always.
    """
    path = Path(path)
    try:
        check_claim(path, allowed=force or resume)
        path.mkdir(parents=True, exist_ok=True)
        if not hold(path / _LOCK):
            raise InputError(f"Another process is writing to {path}; wait until it is done, or choose another --out.")
        check_claim(path, allowed=force or resume)  # another that was done while this one waited may have filled it
        clear_leftovers(path)
    except OSError as error:
        raise readable(error, path) from error


@contextlib.contextmanager
def claiming(path: Path, *, force: bool, resume: bool = False) -> Iterator[None]:
    """`claim_folder` for as long as it is open whether the work can be done: refused inside, no new folder is left."""
    path = Path(path)
    new = [folder for folder in (path, *path.absolute().parents) if not folder.exists()]
    claim_folder(path, force=force, resume=resume)
    try:
        yield
    except BaseException:
        if new and (file := _held.pop((path / _LOCK).resolve(), None)):
            file.close()
            (path / _LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # something is in it: it stays
                for folder in new:
                    folder.rmdir()
        raise


def is_claimed(path: Path) -> bool:
    """Whether a process holds the folder (`claim_folder`), which need not be another one."""
    file = Path(path) / _LOCK
    if file.resolve() in _held:
        return True
    try:
        with open(file, "r+b") as opened:
            return not lock(opened)
    except OSError:
        return False


def clear_leftovers(path: Path) -> None:
    """Delete temporary files of processes that were killed; not those that somebody may still be writing to."""
    for file in path.rglob(".*"):
        if _TEMPORARY.fullmatch(file.name) and file.is_file() and time.time() - file.stat().st_mtime > _ABANDONED:
            file.unlink(missing_ok=True)


def check_claim(path: Path, *, allowed: bool) -> None:
    """Refuse a folder that holds something, without `allowed`, and one that cannot be made or written to; make none."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a folder; choose another --out.")
    if path.is_dir() and any(entry.name != _LOCK for entry in path.iterdir()) and not allowed:
        raise InputError(
            f"{path} already exists and is not empty; "
            f"add --resume to continue it, --force to overwrite, or choose another --out."
        )
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file, not a folder; choose another --out.")
    if not os.access(there, os.W_OK):
        raise InputError(f"{there} is not writable; choose another --out or change its permissions.")


def readable(error: OSError, path: Path) -> InputError:
    """What a user can do about it."""
    if error.errno == errno.ENOSPC:
        return InputError(f"The disk is full: {path} was not written; free some space and try again.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return InputError(f"No permission for {path}; choose another folder or change its permissions.")
    return InputError(f"{path}: {error.strerror or error}; check the path and try again.")


def cache_folder() -> Path:
    """Where rendered and downloaded data is kept between runs: `$FSCIL_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("FSCIL_CACHE")
    return Path(chosen or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fscil")

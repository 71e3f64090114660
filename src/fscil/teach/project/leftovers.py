"""Files and folders of processes that died, told from those of processes at work by a lock that ends with its process.

An age or a process number would not do: a slow export is not a dead one, and in a container the numbers are others.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows cannot lock a folder
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def held(path: Path) -> Iterator[bool | None]:
    """The file or folder is in use until the block ends. False: another process holds it; None: no locks here."""
    if fcntl is None:
        yield None
        return
    handle = os.open(path, os.O_RDONLY)
    mine: bool | None = True
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            mine = False
        except OSError:  # some network disks
            mine = None
        yield mine
    finally:
        os.close(handle)


def clear(folder: Path, own_name: str) -> None:
    """Remove what has a name of this program's own making (a pattern), belongs to you and is held by nobody."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if re.fullmatch(own_name, entry.name) and not entry.is_symlink():
                with contextlib.suppress(OSError):
                    _remove(Path(entry.path))


def _remove(path: Path) -> None:
    with held(path) as dead:
        if not dead or (hasattr(os, "geteuid") and path.lstat().st_uid != os.geteuid()):
            return
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def beside(path: Path) -> str:
    """The names that `fscil.core.storage` writes a file under until it is whole."""
    return rf"\.{re.escape(path.stem)}-fscil-[0-9a-f]{{8}}{re.escape(path.suffix)}"


@contextlib.contextmanager
def workplace(kind: str) -> Iterator[Path]:
    """A temporary folder of the system; those that killed processes left there go first."""
    prefix = f"fscil-{kind}-"
    clear(Path(tempfile.gettempdir()), rf"{prefix}[a-z0-9_]{{8}}")
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, held(Path(folder)):
        yield Path(folder)

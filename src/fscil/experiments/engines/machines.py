"""What machines say of themselves before they are given work, and which differences forbid it."""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fscil.core.errors import InputError
from fscil.core.progress import Reporter


@dataclass(frozen=True)
class Seen:
    """What a machine says of itself before it is given work."""

    machine: str
    folder: str  # why it cannot use the output folder; empty if it can
    package: str  # version and hash of the package's source; empty where there is none
    libraries: Mapping[str, str]


def differences(machines: list[Seen], mine: Seen) -> tuple[list[str], list[str]]:
    """What forbids the work, and what should be known."""
    wrong, known = [], []
    for seen in machines:
        if not seen.package:
            wrong.append(f"{seen.machine} cannot import fscil: install it there, as it is here.")
        elif seen.package != mine.package:
            wrong.append(
                f"{seen.machine} has fscil {seen.package}, and here is {mine.package}: install the same on both."
            )
        if seen.folder:
            wrong.append(f"{seen.machine} {seen.folder}: choose an --out that all machines share under one path.")
        known += [
            f"{seen.machine} has {name} {version}, and here is {mine.libraries[name]}: last digits may differ."
            for name, version in seen.libraries.items()
            if version != mine.libraries.get(name, version)
        ]
    return wrong, known


def refuse_different(machines: list[Seen], mine: Seen, reporter: Reporter) -> None:
    wrong, known = differences(machines, mine)
    for sentence in known:
        reporter.say(sentence)
    if wrong:
        raise InputError(" ".join(wrong))


_NOTE = ".machines-"


@contextlib.contextmanager
def marked(out: Path) -> Iterator[Path]:
    """A file by which a machine tells this folder from another one of the same name."""
    out.mkdir(parents=True, exist_ok=True)
    for left in out.glob(f"{_NOTE}*"):  # by a command that was killed: there is one at a time
        left.unlink(missing_ok=True)
    note = out / f"{_NOTE}{secrets.token_hex(4)}"
    note.write_text(note.name, encoding="utf-8")
    try:
        yield note
    finally:
        note.unlink(missing_ok=True)


def looking() -> Callable[[str, str, str], tuple[str, str, str, dict[str, str]]]:
    """A function that travels whole: it must also run where this package is absent or another one."""

    def look(note: str, host: str, address: str) -> tuple[str, str, str, dict[str, str]]:
        import hashlib
        import importlib.metadata
        import uuid
        from pathlib import Path

        folder, path = "", Path(note)
        try:
            if path.read_text(encoding="utf-8") != path.name:
                folder = f"sees another folder at {path.parent}"
            beside = path.with_name(f"{path.name}-{uuid.uuid4().hex}")
            beside.write_text("", encoding="utf-8")
            beside.unlink()
        except OSError as error:
            folder = f"cannot use the folder {path.parent} ({error.strerror})"
        package = ""
        try:
            import fscil

            source, found = Path(fscil.__file__).parent, hashlib.sha256()
            for file in sorted(source.rglob("*.py")):
                found.update(f"{file.relative_to(source).as_posix()} ".encode() + file.read_bytes())
            package = f"{fscil.__version__} (source {found.hexdigest()[:8]})"
        except ImportError:
            pass
        names = ("torch", "torchvision", "timm", "numpy")
        versions = {}
        for name in names:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = "none"
        return f"{host} ({address})", folder, package, versions

    return look

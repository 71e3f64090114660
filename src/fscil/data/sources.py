"""Files of a data set where they lie: in a folder, or in a .zip, .tar or .tgz, which is read without unpacking it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import cache_folder
from fscil.data.download import Archive, fetch

LARGEST = 200_000_000  # bytes of one file: more is no image and no list of images

# What zipfile and tarfile raise on bytes that are not what they should be.
_DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError, NotImplementedError, MemoryError),
    *(zlib.error, zipfile.BadZipFile, tarfile.TarError),
)
_ENDINGS = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


class Source(ABC):
    """Files by their names, with / between folders."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._names: list[str] | None = None

    def names(self) -> list[str]:
        if self._names is None:
            self._names = sorted(name for name in self._list() if not name.rpartition("/")[2].startswith("."))
        return self._names

    def text(self, name: str) -> str:
        """One file's text."""
        (_, content), *_ = self.read([name])
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{self.where(name)} is not text; unpack or fetch the data set again.") from None

    def top(self, marker: str) -> str:
        """The folder, with a / behind it, that holds a file of this name; the uppermost of several."""
        found = [name for name in self.names() if name.rpartition("/")[2] == marker]
        if not found:
            raise InputError(f"{self.path} holds no {marker}; check data.path, or unpack or fetch the data set again.")
        return min(found, key=lambda name: name.count("/")).removesuffix(marker)

    def where(self, name: str) -> str:
        return str(self.path / name)

    @abstractmethod
    def stamp(self) -> str:
        """Changes where the files do."""

    @abstractmethod
    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Names with contents, in whatever order is quickest; a missing file is refused."""

    @abstractmethod
    def _list(self) -> Iterable[str]: ...


class Folder(Source):
    def _list(self) -> list[str]:
        return [name for name, _ in self._files()]

    def stamp(self) -> str:
        lines = [f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in sorted(self._files())]
        return _sha256(str(self.path), *lines)

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Scanned by hand: a hundred thousand files take a second this way and several by their paths."""
        waiting = [""]
        while waiting:
            inside = waiting.pop()
            try:
                with os.scandir(self.path / inside) as entries:
                    for entry in entries:
                        if entry.is_dir():
                            waiting.append(f"{inside}{entry.name}/")
                        elif entry.is_file():
                            yield f"{inside}{entry.name}", entry.stat()
            except OSError as error:
                raise InputError(
                    f"{self.path / inside} cannot be read ({error.strerror}); check its permissions."
                ) from None

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for name in names:
            try:
                content = (self.path / name).read_bytes()
            except FileNotFoundError:
                raise InputError(f"{self.path / name} is missing; unpack or fetch the data set again.") from None
            except OSError as error:
                raise InputError(
                    f"{self.path / name} cannot be read ({error.strerror}); check its permissions."
                ) from None
            yield name, content


class Packed(Source):
    """An archive; one with a published checksum is held to it before it is read."""

    def __init__(self, path: Path, published: Archive | None = None) -> None:
        super().__init__(path)
        self._published = published

    def stamp(self) -> str:
        found = self.path.stat()
        return _sha256(str(self.path), f"{found.st_size} {found.st_mtime_ns}")

    def _list(self) -> list[str]:
        if self._published and not self._published.matches(self.path):
            raise InputError(
                f"{self.path} is damaged (its checksum is not the published one); delete it and set "
                f"data.download=true, or fetch it from {self._published.url}."
            )
        with self._readable():
            return self._members()

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        wanted, there = set(names), set(self.names())
        if missing := wanted - there:
            raise InputError(f"{self.path} has no {min(missing)}; fetch it again.")
        with self._readable():
            yield from self._contents(wanted)

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except PermissionError:
            raise InputError(f"No permission to read {self.path}; change its permissions.") from None
        except FileNotFoundError:
            raise InputError(f"{self.path} does not exist any more; fetch or copy it again.") from None
        except _DAMAGE as error:
            reason = " ".join(str(error).split())  # tarfile takes a line per format that it tried
            raise InputError(f"{self.path} is damaged ({reason:.80}); fetch or copy it again.") from None

    @abstractmethod
    def _members(self) -> list[str]: ...

    @abstractmethod
    def _contents(self, wanted: set[str]) -> Iterator[tuple[str, bytes]]: ...


class Zip(Packed):
    def _members(self) -> list[str]:
        with zipfile.ZipFile(self.path) as archive:
            return [member.filename for member in archive.infolist() if not member.is_dir()]

    def _contents(self, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
        with zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                if member.filename in wanted:
                    _check_length(member.filename, member.file_size)
                    yield member.filename, archive.read(member)


class Tar(Packed):
    """Read from front to back, as a compressed one can only be."""

    def _members(self) -> list[str]:
        with tarfile.open(self.path) as archive:
            return [member.name.removeprefix("./") for member in archive if member.isfile()]

    def _contents(self, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
        left = set(wanted)
        with tarfile.open(self.path, "r|*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if name in left and member.isfile():
                    _check_length(name, member.size)
                    file = archive.extractfile(member)
                    assert file is not None
                    yield name, file.read()
                    left.remove(name)
                    if not left:
                        return


class Bundle(Source):
    """Several archives whose files have different names, as one."""

    def __init__(self, parts: Sequence[Source]) -> None:
        super().__init__(parts[0].path.parent)
        self._parts = parts

    def stamp(self) -> str:
        return _sha256(*(part.stamp() for part in self._parts))

    def where(self, name: str) -> str:
        return next((part.where(name) for part in self._parts if name in part.names()), super().where(name))

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        wanted = set(names)
        for part in self._parts:
            own = wanted.intersection(part.names())
            yield from part.read(own)
            wanted -= own
        if wanted:
            raise InputError(f"{self.path} has no {min(wanted)}; fetch it again.")

    def _list(self) -> list[str]:
        return [name for part in self._parts for name in part.names()]


def _check_length(name: str, length: int) -> None:
    if length > LARGEST:
        raise ValueError(f"{name} has {length} bytes")


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def packed(path: Path, published: Archive | None = None) -> Packed:
    """A file that must be an archive."""
    if not path.name.lower().endswith(_ENDINGS):
        raise InputError(f"{path} is neither a folder nor an archive ({', '.join(_ENDINGS)}); check data.path.")
    return Zip(path, published) if path.suffix.lower() == ".zip" else Tar(path, published)


def find(config: DataConfig, folders: Sequence[str], archive: Archive | None, marker: str) -> Source | None:
    """What data.path names: an archive, a folder with `marker` in it, or a folder in which one of these lies."""
    place = place_of(config)
    if os.path.isfile(place):
        return packed(place, archive if archive and place.name == archive.name else None)
    for folder in (place, *(place / name for name in folders)):
        if os.path.exists(folder / marker):
            return Folder(folder)
    if archive and os.path.isfile(place / archive.name):
        return packed(place / archive.name, archive)
    return None


def provide(config: DataConfig, folder: str, archive: Archive, marker: str, reporter: Reporter) -> Source:
    """A published data set: where data.path says, in the cache folder, or fetched."""
    found = find(config, [folder], archive, marker)
    if found is not None:
        return found
    place = place_of(config)
    place = place.parent if place.name == archive.name else place
    if not config.download:
        raise InputError(
            f"{config.name} is not in {place}: set data.path to the folder {folder} or to {archive.name}, or set "
            f"data.download=true to fetch it from {archive.url}."
        )
    return packed(fetch(archive, place, reporter), archive)


def place_of(config: DataConfig) -> Path:
    return Path(config.path).expanduser() if config.path else cache_folder() / config.name

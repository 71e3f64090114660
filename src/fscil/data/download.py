"""Archives from where their authors keep them: continued where the last try stopped, checked, and only then in place.

FOLDER/NAME.part   what has arrived; the next try asks for the rest
FOLDER/NAME        the whole archive, with the published checksum
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fscil.core.errors import InputError
from fscil.core.progress import Reporter, Update
from fscil.core.storage import lock, readable

CHUNK = 2**20
TIMEOUT = 60.0  # seconds without a byte
MEGABYTE = 10**6


@dataclass(frozen=True)
class Archive:
    """An archive as it is published: what it is called, where it is, and the checksum that goes with it."""

    name: str
    url: str
    md5: str

    def matches(self, path: Path) -> bool:
        try:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        except PermissionError:
            raise InputError(f"No permission to read {path}; change its permissions.") from None
        return digest.hexdigest() == self.md5


def fetch(archive: Archive, folder: Path, reporter: Reporter) -> Path:
    """The archive in `folder`, fetched unless it is there already and whole."""
    target = folder / archive.name
    if target.is_file() and archive.matches(target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _part_of(target) as part:
            with reporter.task(f"{archive.name}, MB") as update:
                _fill(archive, part, update)
            part.flush()
            os.fsync(part.fileno())
        _check(archive, target)
        os.replace(_part(target), target)
    except HTTPException as error:
        raise _unreachable(archive, target, error) from None
    except OSError as error:  # of the net and of the disk
        if error.errno in (errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS):
            raise readable(error, target) from None
        raise _unreachable(archive, target, error) from None
    return target


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


@contextmanager
def _part_of(target: Path) -> Iterator[IO[bytes]]:
    with open(_part(target), "ab") as part:
        if not lock(part):
            raise InputError(f"Another process is fetching {target}; wait until it is done.")
        yield part


def _fill(archive: Archive, part: IO[bytes], update: Update) -> None:
    """Ask for what is missing until nothing is, as long as every answer brings something new."""
    most = -1
    while True:
        failure: Exception | None = None
        try:
            if _receive(archive, part, update):
                return
        except HTTPError:
            raise  # an answer, which another question would not change
        except (OSError, HTTPException) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            failure = error
        if part.tell() <= most:
            raise failure or ConnectionError("the connection ended early")
        most = part.tell()


def _receive(archive: Archive, part: IO[bytes], update: Update) -> bool:
    """One answer of the server, added to the part; whether that is all of it now."""
    have = part.seek(0, os.SEEK_END)
    headers = {"User-Agent": "fscil", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = urlopen(Request(archive.url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if have and error.code == 416:  # nothing after these bytes: they are all, or not of this archive
            return True
        raise
    with answer:
        if have and not _continues(answer, have):
            have = 0
            part.truncate(0)
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        while chunk := answer.read(CHUNK):
            part.write(chunk)
            have += len(chunk)
            update(have // MEGABYTE, (total or have) // MEGABYTE)
    return total is None or have >= total


def _continues(answer: HTTPResponse, have: int) -> bool:
    return answer.status == 206 and str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-")


def _check(archive: Archive, target: Path) -> None:
    part = _part(target)
    if not archive.matches(part):
        part.unlink()
        raise InputError(
            f"{archive.url} could not be downloaded: what arrived has another checksum and was deleted; try again, or "
            f"put the archive at {target} by hand."
        )


def _unreachable(archive: Archive, target: Path, error: Exception) -> InputError:
    part, arrived = _part(target), ""
    if part.is_file():
        if part.stat().st_size:
            arrived = f" {part.stat().st_size / MEGABYTE:.1f} MB have arrived and are kept; run again to continue."
        else:
            part.unlink()
    return InputError(
        f"{archive.url} could not be downloaded: {error}; check the network, or put the archive at {target} by hand."
        f"{arrived}"
    )

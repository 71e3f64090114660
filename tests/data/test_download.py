"""Archives fetched from a server on this machine: whole, in parts, with faults."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archive_server import ArchiveServer, serving
from data_samples import refusal

from fscil.core.progress import Reporter
from fscil.core.storage import lock
from fscil.data import download
from fscil.data.download import Archive, fetch

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
NAME = "birds.tgz"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "CHUNK", 10_000)
    with serving({NAME: CONTENT}) as running:
        yield running


def archive(server: ArchiveServer, how: str) -> Archive:
    digest = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    return Archive(NAME, f"{server.url}/{how}/{NAME}", digest)


def get(server: ArchiveServer, how: str, folder: Path) -> Path:
    return fetch(archive(server, how), folder, Reporter(quiet=True))


def test_a_whole_archive_is_fetched_once(server: ArchiveServer, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert get(server, "whole", folder).read_bytes() == CONTENT
    assert os.listdir(folder) == [NAME]
    get(server, "whole", folder)
    assert server.asked == [("whole", "")]


def test_progress_is_told_in_megabytes(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MEGABYTE", 1000)
    reporter, told = Reporter(), io.StringIO()
    monkeypatch.setattr("sys.stderr", told)
    fetch(archive(server, "whole"), tmp_path, reporter)
    assert f"{NAME}, MB: 300/300" in told.getvalue()


def test_what_arrived_before_is_not_asked_for_again(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:123_456])
    assert get(server, "whole", tmp_path).read_bytes() == CONTENT
    assert server.asked == [("whole", "bytes=123456-")]
    assert os.listdir(tmp_path) == [NAME]


def test_a_server_that_knows_no_parts(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:123_456])
    assert get(server, "stubborn", tmp_path).read_bytes() == CONTENT


def test_a_connection_that_breaks_again_and_again(server: ArchiveServer, tmp_path: Path) -> None:
    assert get(server, "torn", tmp_path).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == ["", "bytes=100000-", "bytes=200000-"]


def test_a_connection_that_breaks_at_one_place_keeps_what_came(server: ArchiveServer, tmp_path: Path) -> None:
    target = tmp_path / NAME
    refusal(lambda: get(server, "cut", tmp_path), f"{server.url}/cut/{NAME}", "early", target, "0.1 MB", "run again")
    assert (tmp_path / f"{NAME}.part").read_bytes() == CONTENT[:150_000]
    assert not target.exists()
    assert get(server, "whole", tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == ("whole", "bytes=150000-")


def test_another_content_is_deleted(server: ArchiveServer, tmp_path: Path) -> None:
    refusal(lambda: get(server, "bent", tmp_path), f"{server.url}/bent/{NAME}", "checksum", tmp_path / NAME, "by hand")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("more", [0, 1])
def test_a_part_that_is_all_or_more(server: ArchiveServer, tmp_path: Path, more: int) -> None:
    part = tmp_path / f"{NAME}.part"
    part.write_bytes(CONTENT + b"?" * more)
    if more:
        refusal(lambda: get(server, "whole", tmp_path), "checksum")
        assert os.listdir(tmp_path) == []
    else:
        assert get(server, "whole", tmp_path).read_bytes() == CONTENT


def test_a_damaged_archive_in_its_place_stays_until_there_is_a_whole_one(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"half")
    refusal(lambda: get(server, "bent", tmp_path), "checksum")
    assert (tmp_path / NAME).read_bytes() == b"half"
    assert get(server, "whole", tmp_path).read_bytes() == CONTENT


def test_nobody_answers(server: ArchiveServer, tmp_path: Path) -> None:
    refusal(lambda: get(server, "gone", tmp_path), f"{server.url}/gone", "404", "network", tmp_path / NAME)
    nobody = Archive(NAME, f"http://127.0.0.1:9/{NAME}", "0" * 32)
    refusal(lambda: fetch(nobody, tmp_path, Reporter(quiet=True)), nobody.url, "refused", "network")
    assert os.listdir(tmp_path) == []


def test_two_at_once(server: ArchiveServer, tmp_path: Path) -> None:
    with open(tmp_path / f"{NAME}.part", "ab") as other:
        assert lock(other)
        refusal(lambda: get(server, "whole", tmp_path), "Another process", tmp_path / NAME)
    assert get(server, "whole", tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "No permission")])
def test_a_disk_that_takes_nothing(
    server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", fail)
    refusal(lambda: get(server, "whole", tmp_path), words, tmp_path / NAME)
    assert not (tmp_path / NAME).exists()


def test_ctrl_c_keeps_what_came(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        get(server, "whole", tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert get(server, "whole", tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == ("whole", f"bytes={len(CONTENT)}-")

"""cifar100: the archive found, unpacked or fetched, from a server on this machine with a tiny archive."""

from __future__ import annotations

import errno
import hashlib
import io
import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archive_server import ArchiveServer, serving
from data_samples import refusal
from torchvision.datasets import CIFAR100

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.data import Dataset, cifar100

NAMES = ["apple", "bear", "chair"]


def part(per_class: int, seed: int) -> dict[str, Any]:
    """One file of the archive in its real layout: rows of 3072 bytes, a colour plane after the other."""
    count = per_class * len(NAMES)
    return {
        "filenames": [f"{i}.png" for i in range(count)],
        "batch_label": f"part {seed}",
        "fine_labels": np.tile(np.arange(len(NAMES)), per_class).tolist(),
        "coarse_labels": [0] * count,
        "data": np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8),
    }


FILES = {
    "train": pickle.dumps(part(4, 1)),
    "test": pickle.dumps(part(2, 2)),
    "meta": pickle.dumps({"fine_label_names": NAMES, "coarse_label_names": ["thing"]}),
}


def packed() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in FILES.items():
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


ARCHIVE = packed()


class Tiny(CIFAR100):
    """The tiny archive's checksums; the fixture adds its address."""

    tgz_md5 = md5(ARCHIVE)
    train_list = [["train", md5(FILES["train"])]]  # noqa: RUF012 - torchvision's shape
    test_list = [["test", md5(FILES["test"])]]  # noqa: RUF012
    meta = {"filename": "meta", "key": "fine_label_names", "md5": md5(FILES["meta"])}  # noqa: RUF012


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving({"archive": ARCHIVE}) as running:
        yield running


def at(url: str) -> type[CIFAR100]:
    return type("TinyAt", (Tiny,), {"url": url})


def read(path: Path, url: str = "http://127.0.0.1:9/no", download: bool = False) -> Dataset:
    config = DataConfig(name="cifar100", path=str(path), download=download)
    return cifar100.load(config, Reporter(quiet=True), source=at(url))


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


UNPACKED = ["cifar-100-python", "cifar-100-python/meta", "cifar-100-python/test", "cifar-100-python/train"]


def unpack_at(folder: Path) -> None:
    (folder / "cifar-100-python").mkdir(parents=True)
    for name, content in FILES.items():
        (folder / "cifar-100-python" / name).write_bytes(content)


def check_content(dataset: Dataset) -> None:
    assert dataset.name == "cifar100"
    assert dataset.class_names == tuple(NAMES)
    source = part(4, 1)
    assert dataset.train.labels.tolist() == source["fine_labels"]
    assert list(dataset.train.names) == [str(row) for row in range(12)]  # of the array, as the published lists count
    for row in (0, 11):
        for channel in range(3):  # plane by plane, as the archive's description says
            plane = source["data"][row, 1024 * channel : 1024 * (channel + 1)].reshape(32, 32)
            assert np.array_equal(dataset.train.images[row, :, :, channel], plane)
    assert len(dataset.test) == 6


def test_the_real_address_and_checksum() -> None:
    assert CIFAR100.url == "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    assert CIFAR100.tgz_md5 == "eb9058c3a382ffc7106e4002c42a8d85"


def test_an_unpacked_archive(tmp_path: Path) -> None:
    unpack_at(tmp_path)
    check_content(read(tmp_path))
    check_content(read(tmp_path / "cifar-100-python"))
    assert contents(tmp_path) == UNPACKED


def test_an_archive_put_there_by_hand(tmp_path: Path) -> None:
    archive = tmp_path / "cifar-100-python.tar.gz"
    archive.write_bytes(ARCHIVE)
    check_content(read(archive))
    assert contents(tmp_path) == sorted([*UNPACKED, archive.name])
    check_content(read(tmp_path))


def test_nothing_there(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    refusal(lambda: read(folder), f"put the archive at {folder / 'cifar-100-python.tar.gz'}", "data.download=true")
    assert not folder.exists()


def test_the_default_place_is_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSCIL_CACHE", str(tmp_path))
    refusal(lambda: cifar100.load(DataConfig(name="cifar100")), tmp_path / "cifar100", "data.download=true")
    unpack_at(tmp_path / "cifar100")
    check_content(cifar100.load(DataConfig(name="cifar100"), source=Tiny))


def test_a_download(tmp_path: Path, server: ArchiveServer) -> None:
    folder = tmp_path / "new" / "data"
    check_content(read(folder, f"{server.url}/whole/archive", download=True))
    assert contents(folder) == UNPACKED
    asked = len(server.asked)
    check_content(read(folder, f"{server.url}/whole/archive", download=True))
    assert len(server.asked) == asked  # what is there is not fetched again


def test_a_download_that_arrives_damaged(tmp_path: Path, server: ArchiveServer) -> None:
    url = f"{server.url}/bent/archive"
    refusal(lambda: read(tmp_path, url, download=True), url, "checksum", "by hand")
    assert contents(tmp_path) == []


def test_a_download_that_ends_early_is_continued(tmp_path: Path, server: ArchiveServer) -> None:
    refusal(lambda: read(tmp_path, f"{server.url}/cut/archive", download=True), "run again to continue")
    check_content(read(tmp_path, f"{server.url}/whole/archive", download=True))
    assert server.asked[-1] == ("whole", f"bytes={len(ARCHIVE) // 2}-")
    assert contents(tmp_path) == UNPACKED


def test_a_download_that_fails(tmp_path: Path, server: ArchiveServer) -> None:
    refusal(
        lambda: read(tmp_path, f"{server.url}/gone/archive", download=True),
        f"{server.url}/gone/archive",
        "404",
        "network",
    )
    nobody = "http://127.0.0.1:9/archive"
    refusal(lambda: read(tmp_path, nobody, download=True), nobody, "refused", "network")
    assert contents(tmp_path) == []


def test_an_interrupted_download_leaves_nothing_half_done(
    tmp_path: Path, server: ArchiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("torchvision.datasets.utils.extract_archive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read(tmp_path, f"{server.url}/whole/archive", download=True)
    assert contents(tmp_path) == ["cifar-100-python.tar.gz"]  # which is whole, and not fetched again
    monkeypatch.undo()
    check_content(read(tmp_path))


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "disk"), (errno.EACCES, "no permission to write")])
def test_a_folder_that_takes_no_files(
    tmp_path: Path, server: ArchiveServer, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr("torchvision.datasets.utils.extract_archive", fail)
    refusal(lambda: read(tmp_path, f"{server.url}/whole/archive", download=True), words, tmp_path)
    assert contents(tmp_path) == ["cifar-100-python.tar.gz"]


def test_damaged_files_are_named_and_can_be_fetched_again(tmp_path: Path, server: ArchiveServer) -> None:
    unpack_at(tmp_path)
    damaged = tmp_path / "cifar-100-python" / "train"
    damaged.write_bytes(FILES["train"][:-1])
    refusal(lambda: read(tmp_path), damaged.parent, "damaged", "data.download=true")
    check_content(read(tmp_path, f"{server.url}/whole/archive", download=True))
    assert contents(tmp_path) == UNPACKED


def test_a_damaged_archive_is_named(tmp_path: Path, server: ArchiveServer) -> None:
    archive = tmp_path / "cifar-100-python.tar.gz"
    archive.write_bytes(ARCHIVE[:-1])
    refusal(lambda: read(tmp_path), archive, "damaged", "data.download=true")
    check_content(read(tmp_path, f"{server.url}/whole/archive", download=True))


def test_a_failed_second_download_keeps_what_was_there(tmp_path: Path, server: ArchiveServer) -> None:
    unpack_at(tmp_path)
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"")
    refusal(lambda: read(tmp_path, f"{server.url}/bent/archive", download=True), "checksum")
    assert contents(tmp_path) == UNPACKED


def test_no_permission_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "no", str(tmp_path / "train"))

    monkeypatch.setattr(Tiny, "_check_integrity", refuse)
    refusal(lambda: read(tmp_path), "No permission to read", tmp_path / "train")

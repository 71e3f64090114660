"""The same files in a folder and in archives: the same names, the same contents, and a sentence for what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from data_samples import refusal
from official_layouts import as_tar, as_zip, published, unpacked

from fscil.data import sources
from fscil.data.sources import Bundle, Folder, Source, packed

FILES = {
    "top/list.txt": "1 ä\n".encode(),
    "top/b/2.jpg": b"two",
    "top/b/10.jpg": b"ten",
    "top/deep/er/list.txt": b"another",
    "top/b/._2.jpg": b"what a Mac leaves",
    "top/.DS_Store": b"the same",
}
SEEN = ["top/b/10.jpg", "top/b/2.jpg", "top/deep/er/list.txt", "top/list.txt"]

Make = Callable[[Path], Source]


def folder(path: Path) -> Source:
    return Folder(unpacked(FILES, path / "data"))


def archived(name: str, content: bytes) -> Make:
    def make(path: Path) -> Source:
        (path / name).write_bytes(content)
        return packed(path / name)

    return make


MAKERS: dict[str, Make] = {
    "folder": folder,
    "zip": archived("data.zip", as_zip(FILES)),
    "tar": archived("data.tar", as_tar(FILES, "w")),
    "tgz": archived("data.tgz", as_tar({f"./{name}": content for name, content in FILES.items()})),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_names_and_contents(tmp_path: Path, kind: str) -> None:
    source = MAKERS[kind](tmp_path)
    assert source.names() == SEEN
    assert dict(source.read(["top/b/2.jpg", "top/list.txt"])) == {
        name: FILES[name] for name in ("top/b/2.jpg", "top/list.txt")
    }
    assert dict(source.read(SEEN)) == {name: FILES[name] for name in SEEN}
    assert source.text("top/list.txt") == "1 ä\n"
    assert source.top("list.txt") == "top/"  # not the one further down
    assert source.where("top/b/2.jpg").endswith("top/b/2.jpg")


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_missing_is_named(tmp_path: Path, kind: str) -> None:
    source = MAKERS[kind](tmp_path)
    refusal(lambda: list(source.read(["top/list.txt", "top/no.jpg"])), source.path, "no.jpg")
    refusal(lambda: source.top("images.txt"), source.path, "holds no images.txt")


def test_a_stamp_changes_with_the_files_alone(tmp_path: Path) -> None:
    source = folder(tmp_path)
    before = Folder(source.path).stamp()
    assert Folder(source.path).stamp() == before
    file = source.path / "top" / "b" / "2.jpg"
    os.utime(file, (1, 1))
    touched = Folder(source.path).stamp()
    file.with_name("3.jpg").write_bytes(b"")
    assert len({before, touched, Folder(source.path).stamp()}) == 3
    archive = MAKERS["zip"](tmp_path)
    packed_before = archive.stamp()
    os.utime(archive.path, (1, 1))
    assert packed(archive.path).stamp() != packed_before


@pytest.mark.parametrize("kind", ["zip", "tar", "tgz"])
def test_a_damaged_archive(tmp_path: Path, kind: str) -> None:
    source = MAKERS[kind](tmp_path)
    whole = source.path.read_bytes()
    source.path.write_bytes(whole[: len(whole) // 3])
    refusal(lambda: list(packed(source.path).read(SEEN)), source.path)
    source.path.write_bytes(b"no archive at all" * 100)
    refusal(lambda: packed(source.path).names(), source.path, "damaged")
    source.path.unlink()
    refusal(lambda: packed(source.path).names(), source.path, "does not exist")


def test_a_published_archive_must_be_the_published_one(tmp_path: Path) -> None:
    path, content = tmp_path / "data.zip", as_zip(FILES)
    path.write_bytes(content)
    assert packed(path, published("data.zip", content)).names() == SEEN
    path.write_bytes(as_zip({**FILES, "top/list.txt": b"2 ?\n"}))
    archive = published("data.zip", content, "http://example.org/data.zip")
    refusal(lambda: packed(path, archive).names(), path, "checksum", "data.download=true", "example.org")


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGEST", 5)
    for kind in ("zip", "tgz"):
        source = MAKERS[kind](tmp_path)
        assert dict(source.read(["top/b/2.jpg"])) == {"top/b/2.jpg": b"two"}
        refusal(lambda: list(source.read(["top/deep/er/list.txt"])), source.path, "7 bytes")  # noqa: B023


def test_neither_folder_nor_archive(tmp_path: Path) -> None:
    (tmp_path / "birds.rar").write_bytes(b"")
    refusal(lambda: packed(tmp_path / "birds.rar"), tmp_path / "birds.rar", ".tgz", "data.path")
    refusal(lambda: Folder(tmp_path / "no").names(), tmp_path / "no", "cannot be read")
    (tmp_path / "bytes.txt").write_bytes(b"\xff")
    refusal(lambda: Folder(tmp_path).text("bytes.txt"), tmp_path / "bytes.txt", "not text")


def test_several_archives_as_one(tmp_path: Path) -> None:
    parts: list[Source] = []
    for name in ("one", "two"):
        (tmp_path / f"{name}.zip").write_bytes(as_zip({f"{name}/{n}.png": f"{name}{n}".encode() for n in range(2)}))
        parts.append(packed(tmp_path / f"{name}.zip"))
    source = Bundle(parts)
    assert source.names() == ["one/0.png", "one/1.png", "two/0.png", "two/1.png"]
    assert dict(source.read(["two/1.png", "one/0.png"])) == {"one/0.png": b"one0", "two/1.png": b"two1"}
    assert source.where("two/1.png") == str(tmp_path / "two.zip" / "two" / "1.png")
    refusal(lambda: list(source.read(["three/0.png"])), "three/0.png")
    before = source.stamp()
    os.utime(tmp_path / "two.zip", (1, 1))
    assert source.stamp() != before

"""Data sets in the layouts of their archives, made up and tiny: unpacked, packed, or nothing but names in memory."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from fscil.data.download import Archive
from fscil.data.sources import Source

Files = dict[str, bytes]


class Memory(Source):
    """Files that are nowhere: for layouts of full size, which would take long to write."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(Path("/memory"))
        self.files = files

    def _list(self) -> Iterable[str]:
        return self.files

    def stamp(self) -> str:
        return "0"

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for name in names:
            yield name, self.files[name]


def picture(number: int, side: int = 6, kind: str = "PNG") -> bytes:
    """An image whose every pixel is its number, in red and green."""
    buffer = io.BytesIO()
    Image.new("RGB", (side, side + 2), (number // 256, number % 256, 7)).save(buffer, kind)
    return buffer.getvalue()


def numbers(images: np.ndarray) -> list[int]:
    """What `picture` was given."""
    assert (images == images[:, :1, :1]).all()
    return (images[:, 0, 0, 0].astype(int) * 256 + images[:, 0, 0, 1]).tolist()


def unpacked(files: Files, folder: Path) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def as_zip(files: Files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def as_tar(files: Files, mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def published(name: str, content: bytes, url: str = "http://127.0.0.1:9/no") -> Archive:
    return Archive(name, url, hashlib.md5(content, usedforsecurity=False).hexdigest())


def cub(per_class: Mapping[str, tuple[int, int]], *, pixels: bool = True) -> tuple[Files, list[int], list[int]]:
    """CUB_200_2011.tgz: classes with their training and test images, which take turns. Also the numbers of both."""
    lines: dict[str, list[str]] = {"images": [], "train_test_split": [], "image_class_labels": []}
    files: Files = {"attributes.txt": b"1 has_bill_shape::curved\n"}
    halves: dict[int, list[int]] = {1: [], 0: []}
    number = 0
    for label, (name, (train, test)) in enumerate(per_class.items(), start=1):
        for place, half in enumerate([1, 0] * min(train, test) + [1] * (train - test) + [0] * (test - train)):
            number += 1
            image = f"{name}/{name.partition('.')[2]}_{place:04d}_{1000 + number}.jpg"
            lines["images"].append(f"{number} {image}")
            lines["train_test_split"].append(f"{number} {half}")
            lines["image_class_labels"].append(f"{number} {label}")
            files[f"CUB_200_2011/images/{image}"] = picture(number) if pixels else b""
            halves[half].append(number)
    for name, rows in lines.items():
        files[f"CUB_200_2011/{name}.txt"] = "".join(f"{row}\n" for row in rows).encode()
    classes = "".join(f"{label} {name}\n" for label, name in enumerate(per_class, start=1))
    files["CUB_200_2011/classes.txt"] = classes.encode()
    return files, halves[1], halves[0]


def tiny_imagenet(wnids: Iterable[str], train: int, test: int, *, pixels: bool = True) -> Files:
    """tiny-imagenet-200.zip. An image's number is 100 x the place of its class in the list + its own; 50 on: test."""
    top, wnids = "tiny-imagenet-200", list(wnids)
    files: Files = {f"{top}/wnids.txt": "\n".join(wnids).encode()}
    files[f"{top}/words.txt"] = "".join(f"{wnid}\tword{wnid[-2:]}, other\n" for wnid in wnids).encode()
    annotations, count = [], 0
    for place, wnid in enumerate(wnids):
        for number in range(train):
            content = picture(100 * place + number) if pixels else b""
            files[f"{top}/train/{wnid}/images/{wnid}_{number}.JPEG"] = content
        files[f"{top}/train/{wnid}/{wnid}_boxes.txt"] = b"box\n"
        for number in range(test):
            files[f"{top}/val/images/val_{count}.JPEG"] = picture(100 * place + 50 + number) if pixels else b""
            annotations.append(f"val_{count}.JPEG\t{wnid}\t0\t0\t44\t62\n")
            count += 1
    files[f"{top}/val/val_annotations.txt"] = "".join(reversed(annotations)).encode()
    files[f"{top}/test/images/test_0.JPEG"] = b"nobody knows what it shows"
    return files


def omniglot(characters: Mapping[str, Iterable[str]], *, drawers: int = 20, pixels: bool = True) -> dict[str, Files]:
    """The two archives by the names of their sets. A drawing's number is 20 x its character + its drawer, from 0."""
    archives: dict[str, Files] = {}
    number = 0
    for kind, names in characters.items():
        files: Files = {}
        for name in names:
            for drawer in range(drawers):
                content = picture(number * 20 + drawer) if pixels else b""
                files[f"images_{kind}/{name}/{number + 1:04d}_{drawer + 1:02d}.png"] = content
            number += 1
        archives[kind] = files
    return archives

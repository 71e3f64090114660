"""The file of small pictures for a report: samples of every class, and examples of mistakes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.storage import read_json

SCHEMA = 1
PAIRS = 12  # most confused pairs of a method that a report shows, each with a picture


@dataclass(frozen=True)
class Pictures:
    """WebP files in base64."""

    side: int = 0  # height of every picture in pixels
    samples: tuple[str, ...] = ()  # by class: some of its training images side by side; empty where there are too many
    counts: tuple[int, ...] = ()  # how many images each of them shows
    mistakes: Mapping[int, str] = field(default_factory=dict)  # by the number of the test image


def load_pictures(path: str | Path) -> Pictures:
    """Read and check a file of pictures."""
    return parse_pictures(read_json(Path(path)), str(path))


def parse_pictures(document: Any, source: str = "the pictures") -> Pictures:
    """Pictures from their JSON document; nothing but WebP gets into a page."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA or "samples" not in document:
        raise InputError(f"{source} holds no pictures of this version; make the run again with --resume.")
    try:
        samples = document["samples"]
        found = Pictures(
            int(document["side"]),
            tuple(str(sample["strip"]) for sample in samples),
            tuple(int(sample["images"]) for sample in samples),
            {int(row): str(picture) for row, picture in document["mistakes"].items()},
        )
        for picture in (*found.samples, *found.mistakes.values()):
            _check(picture)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{source} cannot be read ({error!s:.200}); make the run again with --resume.") from None
    return found


def _check(picture: str) -> None:
    try:
        content = base64.b64decode(picture, validate=True)
    except binascii.Error:
        raise ValueError("a picture is not base64") from None
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        raise ValueError("a picture is no WebP file")

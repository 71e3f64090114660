"""A learner with the interface of `fscil.teach.Learner` and no network: mean brightness decides."""

from __future__ import annotations

import hashlib
import io
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from fscil.core.errors import InputError


@dataclass(frozen=True)
class Record:
    """Any of the learner's dataclasses: what the web side reads are attributes."""

    values: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


def record(**values: Any) -> Record:
    return Record(values)


class FakeLearner:
    encoder_name, keeps_images = "fake", True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self.known: dict[str, dict[str, bytes]] = {}
        self.changes: list[tuple[str, dict[str, dict[str, bytes]]]] = []
        self.seconds = 0.0  # how long a lesson takes

    def _change(self, what: str) -> None:
        self.changes.append((what, {name: dict(images) for name, images in self.known.items()}))
        self.generation += 1

    def _need(self, name: str) -> dict[str, bytes]:
        if name not in self.known:
            raise InputError(f"There is no class '{name}'.")
        return self.known[name]

    def classes(self) -> list[Record]:
        return [
            record(name=name, images=len(images), created="2026-01-01T00:00:00") for name, images in self.known.items()
        ]

    def images(self, name: str) -> list[Record]:
        return [record(id=id, file="", class_name=name, added="2026-01-01T00:00:00") for id in self._need(name)]

    def image_bytes(self, image_id: str) -> tuple[bytes, str] | None:
        for images in self.known.values():
            if image_id in images:
                return images[image_id], "image/png"
        raise InputError("There is no such image.")

    def learn(self, name: str, images: list[bytes]) -> Record:
        time.sleep(self.seconds)
        good = [content for content in images if brightness(content) is not None]
        skipped = [record(file=f"image {i}", reason="not an image") for i in range(len(images) - len(good))]
        if not good:
            return record(name=name, added=0, skipped=skipped, seconds=0.1, rivals=[])
        self._change(f"learned {name}")
        self.known.setdefault(name, {}).update({hashlib.sha256(content).hexdigest(): content for content in good})
        rivals = [record(name=other, similarity=0.5) for other in self.known if other != name]
        return record(name=name, added=len(good), skipped=skipped, seconds=0.1, rivals=rivals)

    def predict(self, images: list[bytes], top: int = 5) -> list[Record]:
        return [self._predict(content, top) for content in images]

    def _predict(self, content: bytes, top: int) -> Record:
        level = brightness(content)
        if level is None:
            return record(file="", label="", confidence=0.0, top=[], error="This is not an image.")
        means = {name: np.mean([brightness(each) for each in images.values()]) for name, images in self.known.items()}
        guesses = sorted(
            (record(label=name, confidence=float(1 - abs(level - mean))) for name, mean in means.items()),
            key=lambda guess: -guess.confidence,
        )
        sure = bool(guesses) and guesses[0].confidence > 0.9
        return record(
            file="",
            label=guesses[0].label if sure else "unknown",
            confidence=guesses[0].confidence if guesses else 0.0,
            top=guesses[:top],
            error="",
        )

    def explain(self, image: bytes, count: int = 4) -> list[Record]:
        if brightness(image) is None:
            raise InputError("This is not an image.")
        everything = [(id, name) for name, images in self.known.items() for id in images]
        return [record(image_id=id, class_name=name, similarity=0.5) for id, name in everything[:count]]

    def threshold(self) -> float:
        return 0.9

    def set_threshold(self, value: float | None) -> None:
        self.generation += 1

    def forget(self, name: str) -> None:
        self._need(name)
        self._change(f"forgot {name}")
        del self.known[name]

    def rename(self, old: str, new: str) -> None:
        self._need(old)
        if new in self.known:
            raise InputError(f"There is a class '{new}' already.")
        self._change(f"renamed {old}")
        self.known = {new if name == old else name: images for name, images in self.known.items()}

    def remove_image(self, image_id: str) -> None:
        self.image_bytes(image_id)
        self._change("removed an image")
        for images in self.known.values():
            images.pop(image_id, None)

    def undo(self) -> str:
        if not self.changes:
            raise InputError("There is nothing to undo.")
        what, self.known = self.changes.pop()
        self.generation += 1
        return what

    def history(self) -> list[Record]:
        return [
            record(number=i, when="2026-01-01T00:00:00", what=what, undone=False)
            for i, (what, _) in enumerate(self.changes)
        ]

    def map(self) -> list[Record]:
        return [
            record(image_id=id, class_name=name, x=float(i), y=0.0)
            for i, (name, images) in enumerate(self.known.items())
            for id in images
        ]

    def doctor(self) -> Record:
        return record(
            findings=[],
            expected_accuracy=None,
            expected_low=None,
            expected_high=None,
            called_unknown=None,
            learning_curve=[],
        )

    def export(self, path: Path) -> Record:
        path.write_bytes(b"onnx")
        return record()


def brightness(content: bytes) -> float | None:
    try:
        with Image.open(io.BytesIO(content)) as image:
            return float(np.asarray(image.convert("L")).mean() / 255)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        return None

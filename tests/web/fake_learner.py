"""A learner with the interface of `fscil.teach.Learner` and no network: mean brightness decides."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from fscil.core.errors import InputError
from fscil.teach import (
    Change,
    ClassInfo,
    Diagnosis,
    ExportReport,
    Guess,
    ImageInfo,
    Learned,
    MapPoint,
    Neighbour,
    Prediction,
    Rival,
    Skipped,
)

WHEN = "2026-01-01T00:00:00"


class FakeLearner:
    encoder_name, keeps_images, note = "fake", True, ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self.known: dict[str, dict[str, bytes]] = {}
        self.changes: list[tuple[str, dict[str, dict[str, bytes]]]] = []

    def _change(self, what: str) -> None:
        self.changes.append((what, {name: dict(images) for name, images in self.known.items()}))
        self.generation += 1

    def _need(self, name: str) -> dict[str, bytes]:
        if name not in self.known:
            raise InputError(f"There is no class '{name}'.")
        return self.known[name]

    def classes(self) -> list[ClassInfo]:
        return [ClassInfo(name, len(images), WHEN) for name, images in self.known.items()]

    def overview(self, shown: int) -> list[tuple[ClassInfo, list[str]]]:
        return [(each, list(self.known[each.name])[:shown]) for each in self.classes()]

    def read(self, images: list[bytes], *, keep: bool) -> list[bytes]:
        return images

    def images(self, name: str) -> list[ImageInfo]:
        return [ImageInfo(id, "", name, WHEN) for id in self._need(name)]

    def image_bytes(self, image_id: str) -> tuple[bytes, str] | None:
        for images in self.known.values():
            if image_id in images:
                return images[image_id], "image/png"
        raise InputError("There is no such image.")

    def learn(self, name: str, images: list[bytes | Skipped]) -> Learned:
        good = [each for each in images if not isinstance(each, Skipped) and brightness(each) is not None]
        skipped = [each for each in images if isinstance(each, Skipped)]
        skipped += [Skipped(f"image {i}", "not an image") for i in range(len(images) - len(good) - len(skipped))]
        if not good:
            return Learned(name, 0, skipped, 0.1, [])
        self._change(f"learned {name}")
        self.known.setdefault(name, {}).update({hashlib.sha256(content).hexdigest(): content for content in good})
        rivals = [Rival(other, 0.5) for other in self.known if other != name]
        return Learned(name, len(good), skipped, 0.1, rivals)

    def predict(self, images: list[bytes], top: int = 5) -> list[Prediction]:
        return [self._predict(content, top) for content in images]

    def _predict(self, content: bytes, top: int) -> Prediction:
        level = brightness(content)
        if level is None:
            return Prediction("", "", 0.0, [], "This is not an image.")
        means = {name: np.mean([brightness(each) for each in images.values()]) for name, images in self.known.items()}
        guesses = sorted(
            (Guess(name, float(1 - abs(level - mean))) for name, mean in means.items()),
            key=lambda guess: -guess.confidence,
        )
        sure = bool(guesses) and guesses[0].confidence > 0.9
        confidence = guesses[0].confidence if guesses else 0.0
        return Prediction("", guesses[0].label if sure else "unknown", confidence, guesses[:top], "")

    def explain(self, image: bytes, count: int = 4, name: str | None = None) -> list[Neighbour]:
        if brightness(image) is None:
            raise InputError("This is not an image.")
        everything = [(id, each) for each, images in self.known.items() for id in images if name in (None, each)]
        return [Neighbour(id, each, 0.5) for id, each in everything[:count]]

    def threshold(self) -> float:
        return 0.9

    def false_alarms(self) -> float | None:
        return None

    def set_threshold(self, value: float | None = None, false_alarms: float | None = None) -> None:
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

    def move_image(self, image_id: str, name: str) -> None:
        content, _ = self.image_bytes(image_id)  # type: ignore[misc]
        self.remove_image(image_id)
        self.known.setdefault(name, {})[image_id] = content

    def keep(self, kind: str, image_ids: list[str]) -> None:
        self._change(f"kept {kind} {' '.join(image_ids)}")

    def undo(self) -> str:
        if not self.changes:
            raise InputError("There is nothing to undo.")
        what, self.known = self.changes.pop()
        self.generation += 1
        return what

    def history(self) -> list[Change]:
        return [Change(i, WHEN, what, undone=False) for i, (what, _) in enumerate(self.changes)]

    def map(self) -> list[MapPoint]:
        return [
            MapPoint(id, name, float(i), 0.0) for i, (name, images) in enumerate(self.known.items()) for id in images
        ]

    def doctor(self) -> Diagnosis:
        return Diagnosis([], len(self.known), 0, None, None, None, None, [], self.threshold())

    def export(self, path: Path, tell: Callable[[str], None] = lambda stage: None) -> ExportReport:
        tell("Exporting")
        path.write_bytes(b"onnx")
        return ExportReport(str(path), 4, len(self.known), 0, 0.0, 0.0)


def brightness(content: bytes) -> float | None:
    try:
        with Image.open(io.BytesIO(content)) as image:
            return float(np.asarray(image.convert("L")).mean() / 255)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        return None

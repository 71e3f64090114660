"""Small pictures for a report: what the classes look like, and images that were mistaken."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fscil.core.progress import Update
from fscil.data import Benchmark
from fscil.results.comparison import by_method
from fscil.results.confusion import confused_pairs
from fscil.results.pictures import PAIRS, SCHEMA
from fscil.results.result import Result

SIDE = 56  # pixels at most: what a report shows is hardly larger
_PER_CLASS, _IN_ALL, _CLASSES = 4, 800, 2000  # pictures, so that a report stays below a megabyte or two
_QUALITY = 80


def picture_file(benchmark: Benchmark, results: Sequence[Result], progress: Update) -> dict[str, Any]:
    """The document: training images of every class, and test images of the pairs that are most confused."""
    classes = sum(benchmark.classes)
    count = max(1, min(_PER_CLASS, _IN_ALL // classes)) if classes <= _CLASSES else 0
    wanted = sorted({p.example for found in by_method(results).values() for p in confused_pairs(found, PAIRS)})
    samples: list[dict[str, Any]] = []
    mistakes: dict[str, str] = {}
    start, steps, side = 0, benchmark.novel_sessions + 1, SIDE
    for index in range(steps):
        exam = benchmark.exam(index)
        side = min(side, *exam.images.shape[1:3])
        here = [row for row in wanted if start <= row < start + len(exam.labels)]
        mistakes |= {str(row): _strip(exam.images[row - start : row - start + 1]) for row in here}
        start += len(exam.labels)
        if count:
            samples += [{"images": len(some), "strip": _strip(some)} for some in _samples(benchmark, index, count)]
        progress(index + 1, steps)
    return {"schema": SCHEMA, "side": side, "samples": samples, "mistakes": mistakes}


def _samples(benchmark: Benchmark, index: int, count: int) -> Iterable[Tensor]:
    session = benchmark.session(index)
    assert session.images is not None
    for label in session.classes:
        yield session.images[torch.nonzero(session.labels == label).flatten()[:count]]


def _strip(images: Tensor) -> str:
    """The images side by side as one file: a file for each would be mostly headers."""
    small = np.concatenate([_small(image) for image in images.numpy()], axis=1)
    written = io.BytesIO()
    Image.fromarray(small).save(written, "WEBP", quality=_QUALITY, method=6)
    return base64.b64encode(written.getvalue()).decode("ascii")


def _small(image: np.ndarray) -> np.ndarray:
    """The middle square, no larger than it is."""
    picture = Image.fromarray(image)
    side = min(picture.size)
    left, top = ((length - side) // 2 for length in picture.size)
    square = picture.crop((left, top, left + side, top + side))
    return np.asarray(square.resize((min(side, SIDE),) * 2, Image.Resampling.LANCZOS) if side > SIDE else square)

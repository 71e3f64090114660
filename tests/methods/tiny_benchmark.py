"""A benchmark of small made-up images and an untrained network: whatever a method may need, in milliseconds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch

from fscil.core.config import BackboneConfig, DataConfig, TrainConfig
from fscil.data import Benchmark, Session, View
from fscil.data.dataset import Dataset, ImageSet
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.kept_images import KeptImages
from fscil.evaluation.protocol import Examiner, prepare
from fscil.methods import Method
from fscil.training.checkpoint import Checkpoint, Classifier

BASE, WAY, SESSIONS, SHOT, DEPTH = 8, 2, 3, 5, 4
PER_BASE_CLASS = 13  # 104 base images: no network, batch or class count has that size
CPU = torch.device("cpu")


@cache
def tiny_benchmark(base: int = BASE, way: int = WAY, sessions: int = SESSIONS, shot: int = SHOT) -> Benchmark:
    """Every class is a pattern of its own with a little noise."""
    rng = np.random.default_rng(0)
    classes = base + way * sessions
    patterns = rng.integers(0, 256, (classes, 8, 8, 3))

    def images(labels: np.ndarray) -> ImageSet:
        noisy = patterns[labels] + rng.normal(0, 12, (len(labels), 8, 8, 3))
        return ImageSet(np.clip(noisy, 0, 255).astype(np.uint8), labels)

    counts = [PER_BASE_CLASS] * base + [shot] * (way * sessions)
    train, test = np.repeat(np.arange(classes), counts), np.repeat(np.arange(classes), 4)
    names = tuple(f"class {number}" for number in range(classes))
    return Benchmark(Dataset("tiny", images(train), images(test), names), DataConfig("tiny", "", base, way, shot))


@cache
def tiny_network(base: int = BASE) -> Checkpoint:
    torch.manual_seed(0)
    backbone = BackboneConfig(image_size=8, patch_size=4, embed_dim=16, depth=DEPTH, num_heads=2)
    classifier = Classifier(backbone, TrainConfig(), base)
    return Checkpoint(classifier.eval().requires_grad_(False), {"classes": base, "outputs": base})


class Remembered(FeatureCache):
    """Features in memory: the tests of all methods ask for the same ones."""

    def __init__(self, network: Checkpoint) -> None:
        super().__init__(Path(), network.backbone)
        self._views: dict[tuple[str, tuple[int, ...]], object] = {}

    def _get(self, images, blocks=(), ahead=()):  # type: ignore[no-untyped-def]
        key = self._key(images), tuple(blocks)
        if key not in self._views:
            self._views[key] = FeatureCache(None, self.backbone).get(images, blocks)
        return self._views[key]


@cache
def tiny_features(base: int = BASE) -> Remembered:
    return Remembered(tiny_network(base))


def examiner(method: Method, benchmark: Benchmark) -> Examiner:
    return Examiner(benchmark, tiny_features(benchmark.base), method, CPU, tiny_network(benchmark.base))


def exam_view(method: Method, benchmark: Benchmark, index: int = 0) -> View:
    """Test images of one session in their own order, as the protocol has them before it shuffles."""
    whole, counts = examiner(method, benchmark), [len(benchmark.exam(i).labels) for i in range(index + 1)]
    return whole._view[torch.arange(sum(counts[:index]), sum(counts))]


def kept_for(method: Method, benchmark: Benchmark | None = None) -> KeptImages:
    return KeptImages(method, (benchmark or tiny_benchmark()).session, CPU)


def prepared(method: Method, benchmark: Benchmark) -> list[Session]:
    """The sessions as the protocol hands them to a method."""
    network, count = tiny_network(benchmark.base), benchmark.novel_sessions + 1
    features = tiny_features(benchmark.base)
    return [prepare(benchmark.session(index), method, features, CPU, network) for index in range(count)]

"""The same pipeline on a GPU: bf16, compiled, and in agreement with the CPU. Skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fscil import config as configs
from fscil.config import Config
from fscil.data import load_benchmark
from fscil.features import FeatureCache, extract
from fscil.methods import make
from fscil.metrics import summary
from fscil.pipeline import Run
from fscil.protocol import run_method
from fscil.training.checkpoint import load_classifier
from fscil.training.loop import train_base

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def digits(*overrides: str) -> Config:
    return configs.load("digits", ["accelerator=cuda", *overrides])


def test_compiled_bf16_training_learns(tmp_path: Path) -> None:
    config = digits()
    session = load_benchmark(config.data).session(0)
    checkpoint = train_base(session, config, tmp_path)
    assert session.images is not None
    right = (checkpoint.classifier(session.images).argmax(1) == session.labels).float().mean()
    assert right > 0.95
    assert checkpoint.info["peak_memory_mb"] > 0


def test_features_agree_with_the_cpu(tmp_path: Path) -> None:
    config = digits("train.epochs=2")
    benchmark = load_benchmark(config.data)
    train_base(benchmark.session(0), config, tmp_path)
    views = [
        extract(load_classifier(tmp_path, device).backbone, benchmark.exam(0).images, (2, 3))
        for device in ("cpu", "cuda")
    ]
    for a, b in zip(*[(v.final, *v.layers.values()) for v in views], strict=True):
        assert (a - b).norm() / a.norm() < 1e-3


def test_yourself_on_both_devices(tmp_path: Path) -> None:
    config = digits("train.epochs=8")
    benchmark = load_benchmark(config.data)
    network = train_base(benchmark.session(0), config, tmp_path)
    cache = FeatureCache(None, network.backbone)
    scores = []
    for device in ("cpu", "cuda"):
        outcome = run_method(
            make("yourself", config.options["yourself"]), benchmark, cache, device=torch.device(device)
        )
        scores.append(summary(outcome.matrix)["gacc_grid"])
    assert abs(scores[0] - scores[1]) < 4  # other random numbers, same method


def test_the_whole_run(tmp_path: Path) -> None:
    report = Run.open(digits("draws=1"), tmp_path / "run").all()
    assert report.stat().st_size > 10_000

"""The same pipeline on a GPU: bf16, compiled, and in agreement with the CPU. Skipped where there is none."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fscil.backbones.extract import extract
from fscil.core import config as configs
from fscil.core.config import Config
from fscil.data import load_benchmark
from fscil.data.augment import Mixed
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.experiments.run import Run
from fscil.methods import make, yourself
from fscil.metrics import summary
from fscil.objectives import OBJECTIVES, Episode, Objective, ObjectiveOptions, Setting
from fscil.objectives.base import batched_features
from fscil.objectives.cross_entropy import mixed_cross_entropy
from fscil.training.checkpoint import load_classifier
from fscil.training.loop import train_base

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def digits(*overrides: str) -> Config:
    return configs.load("digits", ["accelerator=cuda", *overrides])


class _NearMeans(Objective):
    """Cross-entropy of an episode, and features near the class means of the epoch's start."""

    means: Tensor

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        alone: bool = False

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("means", torch.zeros(setting.classes, setting.dim))

    def episode(self) -> Episode:
        return Episode(3, 5, self.options.alone)

    def every_epoch(self, classifier: Any, images: Tensor, labels: Tensor) -> None:
        found = batched_features(classifier, images)
        self.means.copy_(torch.stack([found[labels == c].mean(0) for c in range(self.setting.classes)]))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        features = [classifier.backbone(view.images) for view in views]
        logits = [self.scale * classifier.head(each) for each in features]
        losses = [mixed_cross_entropy(one, view) for one, view in zip(logits, views, strict=True)]
        return torch.stack(losses).sum() + (features[-1] - self.means[views[-1].labels]).square().mean(), logits[0]


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


def test_a_recorded_step_is_the_step(tmp_path: Path) -> None:
    session = load_benchmark(digits().data).session(0)
    losses = []
    for graph in ("off", "on"):
        config = digits("train.epochs=2", "train.compile=off", f"train.graph={graph}", "train.augment.erase=0.5")
        losses.append(train_base(session, config, tmp_path / graph).info["losses"])
    assert len(losses[0]) > 10  # the first steps are not recorded
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)  # bf16, and sums in any order
    assert losses[0][0] > losses[0][-1]


@pytest.mark.parametrize("alone", [False, True])
def test_a_recorded_step_with_an_episode_is_the_step(
    alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same images and the same means in both, so the same losses as far as bf16 goes."""
    monkeypatch.setitem(OBJECTIVES, "episodes", _NearMeans)
    session = load_benchmark(digits().data).session(0)
    losses = []
    for graph in ("off", "on"):
        config = digits(
            "train.objective=episodes", "train.epochs=2", "train.epoch_steps=12", "train.compile=off",
            f"train.objective_options.alone={str(alone).lower()}", f"train.graph={graph}", "train.objective_rate=0.5",
            "train.milestones=[1]",
        )  # fmt: skip
        losses.append(train_base(session, config, tmp_path / graph).info["losses"])
    assert len(losses[0]) == 24
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    assert losses[0][0] > losses[0][-1]


def test_both_stages_are_recorded(tmp_path: Path) -> None:
    session = load_benchmark(digits().data).session(0)
    losses = []
    for graph in ("off", "on"):
        config = digits(
            "train.epochs=2", "train.compile=off", f"train.graph={graph}", "second.epochs=2", "second.compile=off",
            f"second.graph={graph}", "second.frozen_statistics=true",
        )  # fmt: skip
        found = train_base(session, config, tmp_path / graph).info["losses"]
        losses.append([*load_classifier(tmp_path / graph / "first.safetensors").info["losses"], *found])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_every_objective_can_be_recorded(objective: str, tmp_path: Path) -> None:
    """Nothing in them waits for the device, and nothing that changes from step to step lives outside tensors."""
    extra = {
        "cec": ["train.objective_options={way=3, query=5}"],
        "dot_regression": ["train.head=etf", "train.clip=0"],
        "limit": ["train.objective_options={way=3}", "train.augment.autoaugment=true", "train.augment.epochs=1"],
        "alice": [f"train.augment.{name}" for name in ("brightness=0.4", "hue=0.1", "jitter=0.8", "grey=0.2")],
        "s3c": ["train.objective_options={turns=4}"],
    }
    session = load_benchmark(digits().data).session(0)
    runs = []
    for graph in ("off", "on"):
        config = digits(
            f"train.objective={objective}",
            "train.epochs=3",
            "train.compile=off",
            f"train.graph={graph}",
            *extra.get(objective, []),
        )
        runs.append(train_base(session, config, tmp_path / graph).info["losses"])
    assert all(math.isfinite(loss) for run in runs for loss in run)
    assert fmean(runs[1][-5:]) == pytest.approx(fmean(runs[0][-5:]), rel=0.1)


@pytest.mark.parametrize("first_step", ["released", "dampened"])
def test_yourself_recorded_and_step_by_step(first_step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = digits("train.epochs=8")
    benchmark = load_benchmark(config.data)
    cache = FeatureCache(None, train_base(benchmark.session(0), config, tmp_path).backbone)

    def scores() -> float:
        method = make("yourself", {**config.options["yourself"], "first_step": first_step})
        outcome = run_method(method, benchmark, cache, device=torch.device("cuda"))
        return float(summary(outcome.matrix)["gacc_grid"])

    recorded = scores()
    monkeypatch.setattr(yourself, "GraphedUpdate", lambda update, _: update)
    assert scores() == pytest.approx(recorded, abs=0.5)  # the same random numbers


def test_the_whole_run(tmp_path: Path) -> None:
    for path in Run.open(digits("draws=1"), tmp_path / "run").all():
        result = json.loads(path.read_text())
        assert result["hardware"]["device"] != "cpu"
        assert result["metrics"]["gacc_grid"] > 50
    assert (tmp_path / "run" / "analysis.json").exists()

"""How long a run may take, and how much memory: from a few steps of its own base training, looked at images, and the
project's own measurements of the methods. An estimate; docs of `fscil run --check` say what it was worth."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from fscil.core.config import Config
from fscil.core.hardware import coarse_products, forget_peak, peak_memory_mb, pick_device
from fscil.data import Benchmark
from fscil.experiments.preflight import trainers
from fscil.results.durations import shipped_durations
from fscil.training.trainer import Trainer

_SECONDS = 3.0  # of a stage's steps
_WARM_UP, _MOST = 2, 50  # steps
_LOOKED = 256  # images


@dataclass(frozen=True)
class Estimate:
    """Seconds of every part. What nothing alike was measured of is named in `unknown` and left out."""

    steps: int  # of base training
    training: float
    features: float
    methods: float
    unknown: tuple[str, ...]
    memory_mb: int
    on_gpu: bool

    @property
    def seconds(self) -> float:
        return self.training + self.features + self.methods


def estimate(config: Config, benchmark: Benchmark) -> Estimate:
    """Takes seconds: some updates of each stage are made, and forgotten."""
    device = pick_device(config.accelerator)
    forget_peak(device)
    steps, training, looking = 0, 0.0, 0.0
    with coarse_products(device):
        for trainer in trainers(config, benchmark):
            steps += trainer.total
            training += trainer.total * _of_a_step(trainer) / config.devices
            looking = _of_an_image(trainer, benchmark)
    tested = sum(len(benchmark.exam(index).labels) for index in range(benchmark.novel_sessions + 1))
    shown = benchmark.shot * sum(benchmark.classes[1:]) * config.draws
    methods, unknown = _of_methods(config, benchmark.name, training)
    images = len(benchmark.session(0)) + tested + shown
    memory = peak_memory_mb(device)
    return Estimate(steps, training, looking * images, methods, unknown, memory, device.type == "cuda")


def _of_a_step(trainer: Trainer) -> float:
    """Seconds of an update: the first ones, which make plans, apart."""
    if not trainer.total:
        return 0.0
    for step in range(min(_WARM_UP, trainer.total)):
        trainer.step(step)
    _wait(trainer.fabric.device)
    started, done = time.perf_counter(), 0
    while done < _MOST and time.perf_counter() - started < _SECONDS:
        trainer.step(min(_WARM_UP + done, trainer.total - 1))
        _wait(trainer.fabric.device)
        done += 1
    return (time.perf_counter() - started) / done


@torch.no_grad()
def _of_an_image(trainer: Trainer, benchmark: Benchmark) -> float:
    """Seconds until the network has looked at an image, as methods need it."""
    backbone = trainer.plain.classifier.backbone.eval()
    images = benchmark.exam(0).images[:_LOOKED].to(trainer.fabric.device)
    backbone(images)
    _wait(trainer.fabric.device)
    started = time.perf_counter()
    backbone(images)
    _wait(trainer.fabric.device)
    return (time.perf_counter() - started) / len(images)


def _of_methods(config: Config, dataset: str, training: float) -> tuple[float, tuple[str, ...]]:
    """Of all draws, as the project measured them on these data, by how much slower or faster this machine trains."""
    device = pick_device(config.accelerator).type
    stored = [each for each in shipped_durations() if each.dataset == dataset and each.device == device]
    sessions = {each.work: each.seconds for each in stored if not each.epochs}
    base = next((each for each in stored if each.epochs and each.work == config.recipe), None)
    epochs = sum(stage.epochs for stage in (config.train, config.second) if stage)
    pace = training / (base.seconds * epochs / base.epochs) if base and epochs else 1.0
    known = [name for name in config.methods if name in sessions]
    unknown = tuple(name for name in config.methods if name not in sessions)
    return pace * config.draws * sum(sessions[name] for name in known), unknown


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

"""How long a run may take, and how much memory: from a few steps of its own base training, looked at images, a short
map, and the project's own measurements of the methods.

Told by the clock that results are told by (`core.hardware.clock`), which one thread on a CPU asks for its own time:
beside other programs a few steps by the wall clock say more of those than of the run, up to forty times too much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from fscil import methods
from fscil.core.config import Config
from fscil.core.hardware import clock, coarse_products, forget_peak, peak_memory_mb, pick_device
from fscil.data import Benchmark
from fscil.experiments.layers import MAP_STEPS, embedded, most_points
from fscil.experiments.preflight import trainers
from fscil.methods import YourSelf
from fscil.results.durations import shipped_durations
from fscil.training.trainer import Trainer

_SECONDS = 3.0  # of a stage's steps
_WARM_UP, _MOST = 2, 50  # steps
_LOOKED = 256  # images
_MAP_STEPS = 250  # of t-SNE, which takes no fewer
_Clock = Callable[[], float]


@dataclass(frozen=True)
class Estimate:
    """Seconds of every part. What nothing alike was measured of is named in `unknown` and left out."""

    steps: int  # of base training
    training: float
    features: float
    methods: float
    maps: float  # of the features, for the report
    loading: float  # of what Python needs, and of the images
    unknown: tuple[str, ...]
    memory_mb: int
    on_gpu: bool

    @property
    def seconds(self) -> float:
        return self.loading + self.training + self.features + self.methods + self.maps


def estimate(config: Config, benchmark: Benchmark, loading: float = 0.0) -> Estimate:
    """Takes seconds: some updates of each stage are made, and forgotten. `loading`: what came before took so long."""
    device = pick_device(config.accelerator)
    forget_peak(device)
    steps, training, looking = 0, 0.0, 0.0
    with coarse_products(device):
        for trainer in trainers(config, benchmark):
            steps += trainer.total
            now = clock(device)  # now that the trainer has settled how many threads there are
            training += trainer.total * _of_a_step(trainer, now) / config.devices
            looking = _of_an_image(trainer, benchmark, now)
            depth, width = trainer.plain.classifier.backbone.depth, trainer.plain.classifier.backbone.dim
    tested = sum(len(benchmark.exam(index).labels) for index in range(benchmark.novel_sessions + 1))
    shown = benchmark.shot * sum(benchmark.classes[1:]) * config.draws
    learning, unknown = _of_methods(config, benchmark.name, training)
    images = len(benchmark.session(0)) + tested + shown
    found, maps = _of_maps(config, benchmark, depth, width)
    memory = peak_memory_mb(device)
    return Estimate(
        steps, training, looking * images, learning, maps, loading + found, unknown, memory, device.type == "cuda"
    )


def _of_a_step(trainer: Trainer, now: _Clock) -> float:
    """Seconds of an update: the first ones, which make plans, apart."""
    if not trainer.total:
        return 0.0
    for step in range(min(_WARM_UP, trainer.total)):
        trainer.step(step)
    _wait(trainer.fabric.device)
    started, done = now(), 0
    while done < _MOST and now() - started < _SECONDS:
        trainer.step(min(_WARM_UP + done, trainer.total - 1))
        _wait(trainer.fabric.device)
        done += 1
    return (now() - started) / done


@torch.no_grad()
def _of_an_image(trainer: Trainer, benchmark: Benchmark, now: _Clock) -> float:
    """Seconds until the network has looked at an image, as methods need it."""
    backbone = trainer.plain.classifier.backbone.eval()
    images = benchmark.exam(0).images[:_LOOKED].to(trainer.fabric.device)
    backbone(images)
    _wait(trainer.fabric.device)
    started = now()
    backbone(images)
    _wait(trainer.fabric.device)
    return (now() - started) / len(images)


def _of_maps(config: Config, benchmark: Benchmark, depth: int, width: int) -> tuple[float, float]:
    """Seconds until scikit-learn is there, and of all maps, from a short one of as many points."""
    if YourSelf.name not in config.methods:
        return 0.0, 0.0
    maps = len(methods.make(YourSelf.name, config.options.get(YourSelf.name)).blocks(depth)) + 2
    now = clock(torch.device("cpu"))  # t-SNE runs there
    started = now()
    import sklearn.manifold  # noqa: F401

    found = now()
    embedded(np.random.default_rng(0).normal(size=(most_points(benchmark), width)), config.seed, _MAP_STEPS)
    return found - started, maps * (now() - found) * MAP_STEPS / _MAP_STEPS


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

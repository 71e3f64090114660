"""What can be refused before anything is written, trained or measured; `fscil run --check` does this and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch

from fscil import methods
from fscil.backbones import check_block, depth_of
from fscil.core.config import Config, TrainConfig
from fscil.core.errors import InputError
from fscil.core.hardware import check_devices, make_fabric, pick_device, settle
from fscil.core.progress import Reporter
from fscil.data import Benchmark
from fscil.data.batches import whole_batch
from fscil.experiments.journal import check_services
from fscil.experiments.runner import check_given, load_data
from fscil.objectives import objective_options
from fscil.results.data_notes import DataNotes
from fscil.training.checkpoint import Checkpoint, load_classifier
from fscil.training.loop import UNTRAINED
from fscil.training.trainer import Trainer


def preflight(
    config: Config, reporter: Reporter, checkpoint: Path | None = None, *, trained: bool = False
) -> Benchmark:
    """All of it. `checkpoint` is the network to take; `trained`: there is one already, which the run will look at.

    Returns the sessions that a run is made of.
    """
    check_settings(config)
    network = load_classifier(checkpoint) if checkpoint else None
    benchmark = load_data(config.data, reporter)
    for draw in range(1, config.draws):
        benchmark.draw(draw)
    if checkpoint and network:
        check_given(network, checkpoint, config, benchmark.fingerprint())
    elif not trained:
        for _ in trainers(config, benchmark):
            pass
    return benchmark


def check_settings(config: Config) -> None:
    """What is wrong with a recipe on this machine, whatever its images are."""
    check_methods(config)
    config.check_draws()
    check_services(config.log)
    pick_device(config.accelerator)
    check_devices(config)
    make_fabric(config)


def trainers(config: Config, benchmark: Benchmark) -> Iterator[Trainer]:
    """Of every stage of base training one that stands ready, on one device and not compiled; or a refusal."""
    if config.backbone.kind == "joined":
        raise InputError(UNTRAINED)
    settle(config)
    session, start = benchmark.session(0), None
    second = config.second and _plain(config.second)
    config = replace(config, train=_plain(config.train), second=second)
    for stage in filter(None, (config.train, config.second)):
        if not whole_batch(len(session), stage.batch_size, config.devices):
            raise InputError(
                f"The base session has {len(session)} images, too few for {config.devices} devices; lower devices."
            )
    fabric = make_fabric(replace(config, devices=1, strategy="auto"), alone=True)
    with torch.random.fork_rng(devices=[]):
        first = Trainer(fabric, session, config)
        yield first
        if second:
            info = {"seconds": 0.0, "peak_memory_mb": 0.0, "classes": first.classes, "outputs": first.outputs}
            start = Checkpoint(first.plain.classifier, info, first.plain.objective.state_dict())
            yield Trainer(fabric, session, config, start=start)


def _plain(stage: TrainConfig) -> TrainConfig:
    return replace(stage, compile="off", graph="off")


def data_notes(benchmark: Benchmark) -> DataNotes:
    """What a reader should know of the images."""
    return DataNotes(benchmark.left_over, **asdict(benchmark.twins()))


def check_methods(config: Config) -> None:
    """Refuse a wrong method or option before training, not after."""
    for name in (*config.methods, *config.options):
        if reason := obstacle(name, config):
            raise InputError(reason)


def obstacle(name: str, config: Config) -> str:
    """Why this method cannot run with this recipe's network; empty if it can. A wrong option raises."""
    for stage in (config.train, config.last):
        objective_options(stage)
    method, backbone = methods.make(name, config.options.get(name)), config.backbone
    if backbone.kind == "joined" and not backbone.parts:
        return UNTRAINED
    for part in backbone.parts or (backbone,):
        depth = depth_of(part)
        wanted = method.blocks(depth)
        if ("layers" in method.needs or wanted) and not (depth and wanted):
            return f"{method.title} needs intermediate layers, which a {part.name or part.kind} does not give."
        method.start(seed=0, depth=depth, device=torch.device("cpu"))
        for block in wanted:
            check_block(block, depth)
    return ""

"""Base training on the base session, in one stage or two.

The first of two leaves `first.safetensors`, which the second starts from and which is a checkpoint like any other.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fscil.core.config import Config, to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import coarse_products, make_fabric, settle
from fscil.core.progress import Update
from fscil.data.session import Session
from fscil.training.checkpoint import FIRST, LAST, Checkpoint, load_classifier, same_training
from fscil.training.trainer import Record, Trainer, count_steps

if TYPE_CHECKING:
    from lightning.fabric import Fabric


UNTRAINED = "Joined networks are not trained: make a file with `fscil join` and give it as --checkpoint."


def train_base(
    session: Session,
    config: Config,
    folder: Path | str,
    *,
    fingerprint: str = "",
    resume: bool = False,
    progress: Update | None = None,
    record: Record | None = None,
) -> Checkpoint:
    """Train on the base session and leave `backbone.safetensors` in `folder`; returns the trained network.

    `record` is given the loss and the rate of every epoch; with several devices it must be fit for another process.
    """
    if config.backbone.kind == "joined":
        raise InputError(UNTRAINED)
    bar = progress if config.devices == 1 else None  # a progress bar does not cross a process boundary
    # A partial, because Fabric copies plain arguments and cannot copy frozen dataclasses.
    make_fabric(config).launch(partial(_train, session, config, Path(folder), fingerprint, resume, bar, record))
    return load_classifier(Path(folder))


def _train(
    session: Session,
    config: Config,
    folder: Path,
    fingerprint: str,
    resume: bool,
    bar: Update | None,
    record: Record | None,
    fabric: "Fabric",
) -> None:
    settle(config)  # this may be a process of its own
    with coarse_products(fabric.device):  # where bf16 leaves float32
        stage = partial(_stage, fabric, session, folder=folder, fingerprint=fingerprint, resume=resume)
        if config.second is None:
            stage(config, bar=bar, record=record)
            return
        first, path = replace(config, second=None), folder / FIRST
        steps = [count_steps(train, session, fabric.world_size) for train in (config.train, config.second)]
        if not (resume and path.exists() and _is_of(load_classifier(path), first, fingerprint)):
            stage(first, leaves=FIRST, bar=bar and (lambda done, total: bar(done, sum(steps))), record=record)
        start = load_classifier(path)
        later = record and (lambda step, values: record(steps[0] + step, values))
        stage(config, start=start, bar=bar and (lambda done, total: bar(steps[0] + done, sum(steps))), record=later)


def _stage(
    fabric: "Fabric",
    session: Session,
    config: Config,
    *,
    folder: Path,
    fingerprint: str,
    resume: bool,
    bar: Update | None,
    record: Record | None,
    start: Checkpoint | None = None,
    leaves: str = LAST,
) -> None:
    trainer = Trainer(fabric, session, config, folder, fingerprint, start, leaves)
    if resume:
        trainer.restore()
    trainer.run(bar, record)
    fabric.barrier()  # one process writes it, all read it


def _is_of(network: Checkpoint, config: Config, fingerprint: str) -> bool:
    return same_training(network.info, {"config": to_dict(config), "data": fingerprint})

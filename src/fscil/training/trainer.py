"""One stage of base training, with everything that a step needs derived from (seed, step).

Because batch, augmentation and drop-path randomness are functions of the step, a run that is killed at any
moment continues from its last state to the same weights as one that never stopped.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from fscil.core.config import Config, TrainConfig, to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import clock, peak_memory_mb
from fscil.core.pretraining import pretraining, together
from fscil.core.progress import Update
from fscil.data.augment import Augment, Mixed, as_they_are
from fscil.data.batches import Batches, whole_batch
from fscil.data.session import Session
from fscil.objectives import OBJECTIVES, Setting, build_objective, objective_options
from fscil.training.checkpoint import (
    LAST,
    STATE,
    Checkpoint,
    Classifier,
    load_classifier,
    read_tensors,
    same_training,
    save_classifier,
    save_tensors,
    under,
)
from fscil.training.ema import WeightAverage
from fscil.training.episodes import Episodes
from fscil.training.frozen import FrozenLayers
from fscil.training.graphed import GraphedUpdate
from fscil.training.loss import TrainingLoss
from fscil.training.optimizer import learning_rate, make_optimizer

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Record = Callable[[int, Mapping[str, float]], None]  # (step, numbers by name)


@dataclass
class Trainer:
    """One stage of training on one process: model, optimizer, batches and progress."""

    fabric: "Fabric"
    session: Session
    config: Config
    folder: Path = Path()
    fingerprint: str = ""
    start: Checkpoint | None = None  # what the first stage left, where this is the second
    leaves: str = LAST  # name of the file with the trained network

    def __post_init__(self) -> None:
        self.train = self.config.last if self.start else self.config.train
        # Of a second stage another one: its batches are not those of the first over again. (Not 2**32 away, which is
        # no way at all: a CPU's generator takes the lower half of a seed.)
        self.seed = self.config.seed + (1_000_000 if self.start else 0)
        fabric, train, seed = self.fabric, self.train, self.seed
        device, on_gpu = fabric.device, fabric.device.type == "cuda"
        torch.manual_seed(seed)
        self.classes = len(self.session.classes)
        extra = OBJECTIVES[train.objective].extra_rows(objective_options(train), self.classes)
        self.outputs = self.classes * (4 if train.augment.turn else 1) + extra
        pretrained = self.config.backbone.pretrained and not self.start
        model = Classifier(replace(self.config.backbone, pretrained=pretrained), train, self.outputs)
        # How images are looked at outside training has no say in it, whatever mode the network is trained in.
        model.backbone.test_zoom, model.backbone.test_mirror = 1.0, False
        self.pretraining = {"": pretraining(self.start.info) if self.start else model.backbone.pretraining}
        self.frozen = FrozenLayers(model.backbone, train.frozen_layers)
        self._to_training(model)
        assert self.session.images is not None
        if not pretrained:
            model.backbone.measure_pixels(self.session.images)
        if on_gpu:
            model = model.to(memory_format=torch.channels_last)  # what convolutions want on matrix units
        setting = Setting(model.backbone.dim, self.classes, self.outputs, train.logit_scale, train.label_smoothing)
        self.plain = TrainingLoss(model, build_objective(train, setting), train)
        with torch.no_grad():
            self.plain.objective.start(model)
        if self.start:
            _take_over(self.start, self.plain)
        optimizer = make_optimizer(self.plain, train, fused=on_gpu)
        compiled = train.compile == "on" or (train.compile == "auto" and on_gpu)
        ready = cast(nn.Module, torch.compile(self.plain)) if compiled else self.plain
        self.model, self.optimizer = fabric.setup(ready, optimizer)
        rank, world = fabric.global_rank, fabric.world_size
        self.batches = Batches(self.session, train.batch_size, seed, device, rank, world)
        self.augment = Augment(
            train.augment, self.batches.batch_size, device, rank, world, classes=self.classes, compiled=compiled
        )
        self.episodes = self._make_episodes(compiled)
        self.average = WeightAverage(self.plain, train.ema) if train.ema else None
        paths = [path.strip() for path in train.teacher.split(",") if path.strip()]
        self.teachers = [self._load_teacher(path, compiled) for path in paths]
        self.epoch_steps = train.epoch_steps or self.batches.steps_per_epoch
        self.total = count_steps(train, self.session, world)
        self.warmup = round(train.warmup_epochs * self.epoch_steps)
        self.drops = [round(epoch * self.epoch_steps) for epoch in train.milestones]
        self.losses = torch.zeros(self.total, device=device)
        self.done, self.seconds = 0, self.start.info["seconds"] if self.start else 0.0
        self.progress = torch.zeros((), device=device)
        self.rates = [torch.zeros((), device=device) for _ in self.optimizer.param_groups]
        self.average_weight: float | Tensor = torch.zeros((), device=device) if on_gpu else 0.0
        self.rows = self.batches.rows(0).clone()
        graphs = train.graph == "on" or (train.graph == "auto" and compiled and world == 1)
        self.graphed = GraphedUpdate(self._update, self.augment.generator) if on_gpu and graphs else None

    def run(self, progress: Update | None, record: Record | None = None) -> None:
        now = clock(self.fabric.device)
        started, saved = now() - self.seconds, time.monotonic()
        for step in range(self.done, self.total):
            self.losses[step] = self.step(step)
            self.done = step + 1
            if record and self.fabric.is_global_zero and (self.done % self.epoch_steps == 0 or self.done == self.total):
                record(self.done, self._epoch())
            self.seconds = now() - started
            if time.monotonic() - saved > self.train.checkpoint_seconds and self.done < self.total:
                self.save_state()
                saved = time.monotonic()
            if progress:
                progress(self.done, self.total)
        self._finish()

    def _epoch(self) -> dict[str, float]:
        """What there is to say of the epoch that ends here, or of the part of it that was done."""
        losses = self.losses[(self.done - 1) // self.epoch_steps * self.epoch_steps : self.done]
        return {"train/loss": float(losses.mean()), "train/lr": float(self.optimizer.param_groups[0]["lr"])}

    def step(self, step: int) -> Tensor:
        """One update; returns the loss over the whole batch."""
        self._set_pace(step)
        seed = (self.seed * 1_000_003 + step) * 8 + 1
        torch.manual_seed(seed + self.fabric.global_rank + 1)  # drop path
        self.augment.generator.manual_seed(seed)
        if step % self.epoch_steps == 0:
            self._start_epoch()
        rows = self.batches.rows(step)
        self.rows = self.rows.copy_(rows) if self.graphed else rows
        if self.episodes:
            self.episodes.draw(step)
        loss = (self.graphed or self._update)()
        if self.fabric.world_size > 1:
            torch.distributed.all_reduce(loss, torch.distributed.ReduceOp.SUM)  # each process has seen a part
            loss = loss / self.fabric.world_size
        return loss

    def _set_pace(self, step: int) -> None:
        """Learning rate and averaging weight of a step; on a GPU in tensors, which a recorded step can read."""
        train = self.train
        self.progress.fill_(step / self.total)
        if train.augment.epochs:
            self.augment.active.fill_(step < train.augment.epochs * self.epoch_steps)
        rate = learning_rate(step, self.total, self.warmup, train.lr, train.min_lr, self.drops, train.gamma)
        on_gpu = self.fabric.device.type == "cuda"
        for group, tensor in zip(self.optimizer.param_groups, self.rates, strict=True):
            own = rate * group["factor"]
            group["lr"] = tensor.fill_(own) if on_gpu else own
        if self.average:
            weight, held = self.average.weight(step), self.average_weight
            self.average_weight = held.fill_(weight) if isinstance(held, Tensor) else weight

    def _update(self) -> Tensor:
        views = self._views()
        with torch.no_grad(), self.fabric.autocast():
            targets = [teacher(views[0].images).float() for teacher in self.teachers]
        self.optimizer.zero_grad(set_to_none=True)
        parts = [(view.images, view.labels, view.others, view.share) for view in views]
        loss = self.model(parts, self.progress, targets)
        self.fabric.backward(loss)
        if self.train.clip:
            largest = self.train.clip
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=largest, error_if_nonfinite=False)
        self.optimizer.step()
        with torch.no_grad():
            self.plain.objective.after_step(self.plain.classifier)
        if self.average:
            self.average.update(self.average_weight)
        return loss.detach()

    def _views(self) -> list[Mixed]:
        """What the objective sees in this step: views of the batch, then the episode."""
        views = []
        if not (self.episodes and self.episodes.wanted.alone):
            images, labels = self.batches.images[self.rows], self.batches.labels[self.rows]
            views = [self.augment(images, labels) for _ in range(self.plain.objective.views)]
            if self.plain.objective.plain:
                views.append(as_they_are(images, labels))
        return [*views, self.episodes.view()] if self.episodes else views

    def _make_episodes(self, compiled: bool) -> Episodes | None:
        wanted = self.plain.objective.episode()
        if wanted is None:
            return None
        return Episodes(wanted, self.batches, self.classes, self.augment, compiled=compiled)

    def _start_epoch(self) -> None:
        objective, classifier = self.plain.objective, self.plain.classifier
        classifier.eval()
        with torch.no_grad(), self.fabric.autocast():
            objective.every_epoch(classifier, self.batches.images, self.batches.labels)
        self._to_training(classifier)

    def _to_training(self, classifier: Classifier) -> None:
        classifier.train(not self.train.frozen_statistics)
        self.frozen.rest()

    def _load_teacher(self, path: str, compiled: bool) -> nn.Module:
        device = self.fabric.device
        checkpoint = load_classifier(path, device)
        if checkpoint.info["outputs"] != self.outputs:
            raise InputError(
                f"The teacher {path} was trained on {checkpoint.info['outputs']} classes and the student has "
                f"{self.outputs}; train both on the same classes, with train.augment.turn on or off in both."
            )
        self.pretraining["its teacher"] = pretraining(checkpoint.info)
        teacher: nn.Module = checkpoint.classifier
        if device.type == "cuda":
            teacher = teacher.to(memory_format=torch.channels_last)
        return cast(nn.Module, torch.compile(teacher)) if compiled else teacher

    def save_state(self) -> None:
        if not self.fabric.is_global_zero:
            return
        tensors = {f"model.{name}": value for name, value in self.plain.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in state.items()}
        if self.average:
            tensors |= {f"average.{name}": value for name, value in self.average.averages.items()}
        tensors["losses"] = self.losses
        save_tensors(self.folder / STATE, tensors, self._info())

    def restore(self) -> None:
        """Continue from the last state, if there is one of the same training."""
        path = self.folder / STATE
        if not path.exists():
            return
        tensors, info = read_tensors(path)
        try:
            if not same_training(info, self._info()):
                return  # another training's leftovers: start afresh and overwrite them
            self.plain.load_state_dict(under("model.", tensors))
            state = self.optimizer.state_dict()
            for name, value in under("optimizer.", tensors).items():
                number, key = name.split(".", 1)
                state["state"].setdefault(int(number), {})[key] = value
            self.optimizer.load_state_dict(state)
            self._lay_out()
            if self.average:
                self.average.load(under("average.", tensors))
            self.losses.copy_(tensors["losses"])
            self.done, self.seconds = info["step"], info["seconds"]
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not the state of a training ({error}); delete it and train again.") from None

    def _lay_out(self) -> None:
        """Moments in the memory layout of their parameters, which a file does not keep and a fused update asks for."""
        for parameter, held in self.optimizer.optimizer.state.items():
            for name, value in held.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    held[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)

    def _finish(self) -> None:
        if not self.fabric.is_global_zero:
            return
        if self.average:
            self.average.copy_to_model()
        with torch.no_grad():
            self.plain.objective.finish(self.plain.classifier)
        info = {**self._info(), "losses": [round(v, 6) for v in self.losses.tolist()]}
        extras = self.plain.objective.state_dict()
        save_classifier(self.folder / self.leaves, self.plain.classifier, info, extras)
        (self.folder / STATE).unlink(missing_ok=True)

    def _info(self) -> dict[str, Any]:
        return {
            "config": to_dict(self.config),
            "pretraining": together(self.pretraining),
            "data": self.fingerprint,
            "classes": self.classes,
            "outputs": self.outputs,
            "step": self.done,
            "steps": self.total,
            "seconds": round(self.seconds, 3),
            "peak_memory_mb": max(
                peak_memory_mb(self.fabric.device), self.start.info["peak_memory_mb"] if self.start else 0.0
            ),
        }


def _take_over(first: Checkpoint, second: TrainingLoss) -> None:
    """The network of the first stage, its head where it has the same shape, and what both objectives have alike."""
    network = second.classifier
    network.backbone.load_state_dict(first.backbone.state_dict())
    old, new = first.classifier.head.state_dict(), network.head.state_dict()
    if {name: value.shape for name, value in old.items()} == {name: value.shape for name, value in new.items()}:
        network.head.load_state_dict(old)
    own = {name: value.shape for name, value in second.objective.state_dict().items()}
    alike = {name: value for name, value in first.extras.items() if own.get(name) == value.shape}
    second.objective.load_state_dict(alike, strict=False)


def count_steps(train: TrainConfig, session: Session, world: int) -> int:
    """Updates of a stage."""
    batch = whole_batch(len(session), train.batch_size, world) or 1  # Batches refuse what is too few
    return train.epochs * (train.epoch_steps or len(session) // batch)

"""NC-FSCIL: class vectors fixed for good as a simplex frame; a small neck learns to put features on them.

Yang et al., Neural Collapse Inspired Feature-Classifier Alignment for Few-Shot Class-Incremental Learning, ICLR 2023.
The backbone is frozen; what is remembered of a class is the mean of its features. A network that was trained with the
frame (train.head=etf) comes with both; for any other, neck and frame are made here, from the base features.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.heads import DIM, EtfHead, Neck, simplex_frame
from fscil.core.errors import InputError
from fscil.core.options import Amount, BelowOne, Bounds, Count, Items, Share, Whole
from fscil.data.session import Session, View
from fscil.methods.base import Method, descend, features, mean_features, seeded
from fscil.methods.networks import tuning
from fscil.methods.rows import appended
from fscil.objectives.dot_regression import WEIGHT

Batch = tuple[Tensor, Tensor]  # features (n, d), labels (n,)

SHARD = 8  # samples that are mixed among themselves: each of the authors' 8 processes mixes its part of a batch of 64


@dataclass
class NCFSCIL(Method):
    name = "nc-fscil"
    title = "NC-FSCIL"
    paper = "Yang et al., ICLR 2023"
    needs = frozenset({"backbone"})
    differences = (
        "last epoch, not the best on the test set; base training mixes image by image and normalises over the whole "
        "batch; makes a neck where the network has none"
    )

    # Updates in sessions 1, 2, ...; the last number also for all that follow.
    steps: Annotated[tuple[Count, ...], Items(least=1)] = (100, 150, 200, 240, 280, 320, 400)
    lr: Amount = 0.25
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    batch: Count = 64
    copies: Whole = 1  # how often the mean of an earlier new class is rehearsed; 0: as often as sessions have passed
    rescale: bool = True  # classes that are rare in a batch count for more
    mixup: Share = 0.75  # probability that a batch mixes the neck's outputs in pairs
    # Classes to reserve room for, where the network has no frame; more cannot be added later.
    vertices: Annotated[int, Bounds(low=2, high=DIM)] = 200
    base_steps: Whole = 1000  # updates of a neck made here, on the base features
    base_batch: Count = 128
    base_mixup: Share = 1.0  # as mixup, for those updates

    def fit_base(self, session: Session) -> None:
        x = features(session).final
        self.base_ = len(session.classes)
        self.means_ = mean_features(x, session)
        head = getattr(session.network, "head", None)
        if isinstance(head, EtfHead):
            self.neck_ = copy.deepcopy(head.neck).float()
            # Where turned classes have vertices too, those of classes to come stand behind them.
            self.frame_ = torch.cat([head.weight[: self.base_], head.weight[head.classes :]]).clone()
            return
        self._check_room(self.base_, self.vertices)
        start = torch.Generator().manual_seed(self.seed_)
        self.frame_ = simplex_frame(self.vertices, DIM, start).to(x.device)
        self.neck_ = _fresh_neck(x.shape[1], self.seed_).to(x.device)
        batches = _batches(x, session.labels, self.base_batch, self._generator(0, x.device))
        self._train(batches, self.base_steps, self.base_mixup, 0)

    def fit_novel(self, session: Session) -> None:
        self._check_room(session.classes.stop, len(self.frame_))
        x = features(session).final
        earlier = torch.arange(self.base_, len(self.means_), device=x.device)
        rehearsed = earlier.repeat(self.copies or session.index)
        base = torch.arange(self.base_, device=x.device)
        inputs = torch.cat([x, self.means_[rehearsed], self.means_[base]])
        labels = torch.cat([session.labels, rehearsed, base])
        generator = self._generator(session.index, x.device)
        steps = self.steps[min(session.index, len(self.steps)) - 1]
        self._train(_batches(inputs, labels, self.batch, generator), steps, self.mixup, session.index)
        self.means_ = appended(self.means_, mean_features(x, session))

    @torch.no_grad()
    def scores(self, view: View) -> Tensor:
        return F.normalize(self.neck_(view.final), dim=-1) @ self.frame_[: len(self.means_)].T

    def networks(self) -> dict[str, Callable[[], Any]]:
        return {"neck_": lambda: Neck(self.means_.shape[1], DIM)}

    def _train(self, batches: Callable[[], Batch], steps: int, mixup: float, session: int) -> None:
        optimizer = torch.optim.SGD(
            self.neck_.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: pace(done + 1, steps))
        generator = self._generator(session + 1_000, self.means_.device)

        def loss() -> Tensor:
            inputs, labels = batches()
            return self._loss(self.neck_(inputs), labels, mixup, generator)

        with tuning(self.neck_):
            descend(loss, optimizer, steps, schedule)

    def _loss(self, outputs: Tensor, labels: Tensor, mixup: float, generator: torch.Generator) -> Tensor:
        weights = rarity(labels, len(self.frame_)) if self.rescale else torch.ones_like(labels, dtype=outputs.dtype)
        order = partners(torch.rand(len(labels), generator=generator, device=labels.device))
        mixing = torch.rand((), generator=generator, device=labels.device) < mixup
        # Unmixed, a sample is its own partner, and the mean of the two losses is the loss.
        partner = torch.where(mixing, order, torch.arange(len(labels), device=labels.device))
        unit = F.normalize((outputs + outputs[partner]) / 2, dim=-1)
        return (self._pull(unit, labels, weights) + self._pull(unit, labels[partner], weights[partner])) / 2

    def _pull(self, unit: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """5 * mean of (u . r e - r)^2, with r^2 as weights."""
        return WEIGHT / 2 * (weights * ((unit * self.frame_[labels]).sum(1) - 1).square()).mean()

    def _check_room(self, classes: int, vertices: int) -> None:
        if classes > vertices:
            raise InputError(
                f"NC-FSCIL reserved room for {vertices} classes and is shown {classes}; set options.nc-fscil.vertices "
                f"(or train.vertices, where the network has the frame) to all classes that will ever come."
            )


def pace(update: int, updates: int) -> float:
    """Factor of the learning rate of an update, from the first, 1, to the last: the released schedule.

    A cosine down to 0.01, over it 5 updates of warm-up (the first of them at 0.28), then 5 updates at 0.001.
    """
    cooling = 5 if updates > 10 else 0  # which the authors' sessions, of 50 updates at least, need not ask
    if update > updates - cooling:
        return 0.001
    falling = 0.01 + 0.99 * (1 + math.cos(math.pi * update / (updates - cooling))) / 2
    return falling * min(1.0, 0.1 + 0.9 * update / 5)


def rarity(labels: Tensor, classes: int) -> Tensor:
    """r^2 of each sample: the mean number of samples per class in the batch, over that of its own class."""
    counts = torch.bincount(labels, minlength=classes)
    return len(labels) / (counts > 0).sum() / counts[labels]


def partners(numbers: Tensor) -> Tensor:
    """Whom each sample of a batch is mixed with, from random numbers in 0..1: one of its own SHARD, or itself."""
    shards = torch.arange(len(numbers), device=numbers.device) // SHARD
    return (shards + numbers).argsort()


def _batches(x: Tensor, labels: Tensor, size: int, generator: torch.Generator) -> Callable[[], Batch]:
    """Batches of one size, shuffled anew when what is left is too little for another."""
    size = min(size, len(labels))
    left = torch.empty(0, dtype=torch.int64, device=x.device)

    def batch() -> Batch:
        nonlocal left
        if len(left) < size:
            left = torch.rand(len(labels), generator=generator, device=x.device).argsort()
        rows, left = left[:size], left[size:]
        return x[rows], labels[rows]

    return batch


def _fresh_neck(inputs: int, seed: int) -> Neck:
    with seeded(seed, torch.device("cpu")):  # torch's layers take their start from the global generator
        return Neck(inputs, DIM)

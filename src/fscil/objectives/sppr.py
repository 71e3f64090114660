"""SPPR's base training (Zhu et al., CVPR 2021): learn prototypes by pretending, again and again, that some are new.

In every step a few base classes lose their learned prototype and get the mean of a handful of features instead, as a
new class would; attention re-mixes all prototypes; a small network says how well an image and a prototype fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.errors import InputError
from fscil.core.options import Amount, Count
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, restored
from fscil.objectives.cross_entropy import by_share, mixed_cross_entropy

HIDDEN = 64  # of the network that compares
FLOOR = 1e-4  # of a prototype's length: they start at zero, where a smaller floor would blow gradients up


class HalfDropout(nn.Module):
    """Dropout of one half. On a CPU the random numbers are most of its cost, and a coin takes one bit of a byte."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or x.device.type != "cpu":
            return F.dropout(x, 0.5, self.training)
        words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 8),))
        coins = words.view(torch.uint8)[: x.numel()].view(x.shape).bitwise_and(1)
        return x * coins.to(x.dtype).mul(2)


class Refinement(nn.Module):
    """Table of prototypes, attention that refines it, and the network that relates images to what comes out."""

    def __init__(self, classes: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(classes, dim))

        def matrix() -> nn.Linear:
            return nn.Linear(dim, dim, bias=False)

        self.query, self.key, self.value, self.output = matrix(), matrix(), matrix(), matrix()
        self.drop = nn.Dropout(0.1)
        # The first layer of the pair (image, prototype) is the sum of two halves, computed once for each.
        self.of_image, self.of_prototype = nn.Linear(dim, HIDDEN), nn.Linear(dim, HIDDEN, bias=False)
        self.compare = nn.Sequential(
            nn.BatchNorm1d(HIDDEN), nn.ReLU(), HalfDropout(),
            nn.Linear(HIDDEN, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), HalfDropout(),
            nn.Linear(HIDDEN, 1),
        )  # fmt: skip

    def refine(self, prototypes: Tensor, others: Tensor) -> Tensor:
        """Prototypes (..., c, d), each with what it takes from all of them and from `others` (..., k, d)."""
        pool = torch.cat([prototypes, others], -2)
        similar = self.query(prototypes) @ self.key(pool).mT / math.sqrt(prototypes.shape[-1])
        return prototypes + self.drop(self.output(self.drop(similar.softmax(-1)) @ self.value(pool)))

    def relate(self, features: Tensor, prototypes: Tensor) -> Tensor:
        """Logits (..., n, c) of features (n, d) and prototypes (..., c, d)."""
        of_prototypes = self.of_prototype(F.normalize(prototypes, dim=-1, eps=FLOOR))
        pairs = self.of_image(F.normalize(features, dim=-1))[:, None] + of_prototypes[..., None, :, :]
        return self.compare(pairs.reshape(-1, HIDDEN)).view(pairs.shape[:-1])

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        return restored(lambda: cls(*state["table"].shape), state)


def pretend(table: Tensor, means: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """The table (c, d) with the rows of `new` (tasks, c) replaced by `means` (c, d), and with zeros instead."""
    new = new[..., None].to(table.dtype)
    return table * (1 - new) + means * new, table * (1 - new)


class SPPRObjective(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        way: Count = 5  # classes that pretend to be new
        shot: Count = 5  # images of each that make its prototype; at most half of what the batch has of the class
        tasks: Count = 3  # such choices in a step
        weight_head: Amount = 0.0  # of a plain classifier's loss; 0, as published: it learns, the features do not

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        if options.way >= setting.outputs:
            raise InputError(
                f"train.objective_options.way must be from 1 to {setting.outputs - 1}, as some base classes stay old; "
                f"got {options.way}."
            )
        self.refinement = Refinement(setting.outputs, setting.dim)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        batch, part, smoothing = views[0], self.refinement, self.setting.label_smoothing
        features = classifier.backbone(batch.images)
        support = support_rows(batch.labels, self.options.shot)
        means, fit = support_means(features.float(), batch.labels, support, self.setting.outputs)
        new = choose(fit, self.options.way, self.options.tasks)
        prototypes, without = pretend(part.table, means, new)
        logits = part.relate(features, part.refine(prototypes, without)).float()  # (tasks, n, classes)
        losses = task_losses(logits, batch, smoothing)
        counted = 1 - (new[:, batch.labels] & support).float()  # an image that made a prototype cannot test it
        plain = classifier.head(features if self.options.weight_head else features.detach())
        loss = (losses * counted).sum() / counted.sum().clamp(min=1)
        return loss + (self.options.weight_head or 1.0) * mixed_cross_entropy(plain, batch, smoothing), plain


def support_rows(labels: Tensor, shot: int) -> Tensor:
    """Which rows of a batch (n,) make prototypes: up to `shot` of a class at random, and never more than half of it."""
    same = labels[:, None] == labels[None]
    order = torch.rand(len(labels), device=labels.device)
    before = (same & (order[None] < order[:, None])).sum(1)
    return before < (same.sum(1) // 2).clamp(max=shot)


def support_means(features: Tensor, labels: Tensor, support: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Mean of each class's support (classes, d), and which classes have any (classes,)."""
    member = F.one_hot(labels, classes).to(features.dtype) * support[:, None]
    counts = member.sum(0)
    return member.T @ features / counts.clamp(min=1)[:, None], counts > 0


def choose(fit: Tensor, way: int, tasks: int) -> Tensor:
    """(tasks, classes): `way` different classes of each task at random, of those that are fit for it."""
    order = torch.rand(tasks, len(fit), device=fit.device).masked_fill(~fit, -1.0)
    chosen = torch.zeros_like(order, dtype=torch.bool).scatter(1, order.topk(way).indices, True)
    return chosen & fit


def task_losses(logits: Tensor, batch: Mixed, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy (tasks, n) of logits (tasks, n, classes): all tasks have the same images."""
    flat, tasks = logits.flatten(0, 1), len(logits)

    def losses(labels: Tensor) -> Tensor:
        return F.cross_entropy(flat, labels.repeat(tasks), label_smoothing=smoothing, reduction="none").view(tasks, -1)

    return by_share(batch, losses)

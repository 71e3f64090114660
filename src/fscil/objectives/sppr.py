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
from fscil.objectives.base import Episode, Objective, ObjectiveOptions, Setting, restored
from fscil.objectives.cross_entropy import mixed_cross_entropy

HIDDEN = 64  # of the network that compares
SPARE = 3  # classes that come with a step's shots and, in one task or another, do not pretend


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
            made = nn.Linear(dim, dim, bias=False)
            nn.init.xavier_normal_(made.weight)  # as released: 1 / sqrt(dim), 0.044 for 512
            return made

        self.query, self.key, self.value, self.output = matrix(), matrix(), matrix(), matrix()
        self.drop = nn.Dropout(0.1)
        # The first layer of the pair (image, prototype) is the sum of two halves, computed once for each. They start
        # as the one layer of twice the inputs that they are.
        self.of_image, self.of_prototype = nn.Linear(dim, HIDDEN), nn.Linear(dim, HIDDEN, bias=False)
        bound = 1 / math.sqrt(2 * dim)
        for half in (self.of_image.weight, self.of_image.bias, self.of_prototype.weight):
            nn.init.uniform_(half, -bound, bound)
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
        """Logits (n, c) of features (n, d) and prototypes (c, d)."""
        of_prototypes = self.of_prototype(F.normalize(prototypes, dim=-1))
        pairs = self.of_image(F.normalize(features, dim=-1))[:, None] + of_prototypes
        return self.compare(pairs.flatten(0, 1)).view(pairs.shape[:-1])

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
        shot: Count = 5  # images of each that make its prototype
        tasks: Count = 3  # choices of them in a step, of three classes more than that
        weight_head: Amount = 0.0  # of a plain classifier's loss; 0, as published: it learns, the features do not

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        if setting.outputs != setting.classes:
            raise InputError("train.objective=sppr has one prototype for a class; set train.augment.turn to 0.")
        if options.way >= setting.classes:
            raise InputError(
                f"train.objective_options.way must be from 1 to {setting.classes - 1}, as some base classes stay old; "
                f"got {options.way}."
            )
        self.refinement = Refinement(setting.classes, setting.dim)

    def episode(self) -> Episode:
        return Episode(min(self.options.way + SPARE, self.setting.classes), self.options.shot)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        (batch, shots), o, part = views, self.options, self.refinement
        smoothing = self.setting.label_smoothing
        names = shots.labels.view(-1, o.shot)[:, 0]
        of_names = classifier.backbone(shots.images).float().unflatten(0, (-1, o.shot)).mean(1)
        means = part.table.new_zeros(part.table.shape).index_copy(0, names, of_names)
        prototypes, without = pretend(part.table, means, some_of(names, o.way, o.tasks, self.setting.classes))
        features = classifier.backbone(batch.images)
        # Small, and not rounded: pairs of one image differ in a prototype alone.
        with torch.autocast(features.device.type, enabled=False):
            # One task after the other, as its batch statistics are its own.
            tasks = [part.relate(features.float(), rows) for rows in part.refine(prototypes, without)]
        loss = torch.stack([mixed_cross_entropy(logits, batch, smoothing) for logits in tasks]).mean()
        plain = classifier.head(features if o.weight_head else features.detach())
        return loss + (o.weight_head or 1.0) * mixed_cross_entropy(plain, batch, smoothing), plain


def some_of(names: Tensor, way: int, tasks: int, classes: int) -> Tensor:
    """(tasks, classes): in every task another `way` of the classes in `names`, at random."""
    chosen = torch.rand(tasks, len(names), device=names.device).argsort(1)[:, :way]
    new = torch.zeros(tasks, classes, dtype=torch.bool, device=names.device)
    return new.scatter(1, names[chosen], True)

"""CLOM's base training (Zou et al., NeurIPS 2022): an easy task for the features, a hard one for a wide branch on top.

A negative margin keeps the features from over-fitting the base classes, so that they transfer; a positive one lets the
branch learn what is particular to the base classes. Both grow with how alike two classes are (`margins`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import CosineHead
from fscil.core.options import Amount, Count
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, restored, start_as_linear
from fscil.objectives.margins import margin_cross_entropy, related_margins


class ExtraBranch(nn.Module):
    """Features (n, dim) -> wider ones (n, width)."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, width, bias=False)
        bound = 1 / math.sqrt(width)  # of its outputs: the authors' matrix stands the other way round
        nn.init.uniform_(self.linear.weight, -bound, bound)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, features: Tensor) -> Tensor:
        return F.leaky_relu(self.norm(self.linear(features)), 0.1)

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        return restored(lambda: cls(*reversed(state["linear.weight"].shape)), state)


class CLOMObjective(Objective):
    margins: Tensor
    extra_margins: Tensor

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        width: Count = 256  # of the extra branch
        weight: Amount = 1.0  # of the extra branch's loss
        average: float = -0.2  # margin of the features for a pair of average similarity
        alike: float = -0.5  # and for a pair of equal classes
        extra_average: float = 0.1  # the same two of the extra branch
        extra_alike: float = 0.2

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.branch = ExtraBranch(setting.dim, options.width)
        self.head = CosineHead(options.width, setting.outputs, setting.scale)
        self.register_buffer("margins", torch.zeros(setting.outputs, setting.outputs))
        self.register_buffer("extra_margins", torch.zeros(setting.outputs, setting.outputs))

    def start(self, classifier: Any) -> None:
        for head in (classifier.head, self.head):
            start_as_linear(head)

    def every_epoch(self, classifier: Any, images: Tensor, labels: Tensor) -> None:
        """How alike two classes are is asked of the class weights once an epoch, as in the authors' code."""
        o = self.options
        self.margins.copy_(related_margins(classifier.head.weight[: self.setting.outputs], o.average, o.alike))
        self.extra_margins.copy_(related_margins(self.head.weight, o.extra_average, o.extra_alike))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        features = classifier.backbone(views[0].images)
        logits = classifier.head(features)
        extra = self.head(self.branch(features))  # its gradient reaches the features too
        loss = self._loss(logits, views[0], self.margins)
        return loss + self.options.weight * self._loss(extra, views[0], self.extra_margins), logits

    def _loss(self, logits: Tensor, batch: Mixed, margins: Tensor) -> Tensor:
        return margin_cross_entropy(logits, batch, margins, self.setting.scale, self.setting.label_smoothing)

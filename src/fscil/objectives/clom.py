"""CLOM's base training (Zou et al., NeurIPS 2022): an easy task for the features, a hard one for a wide branch on top.

A negative margin keeps the features from over-fitting the base classes, so that they transfer; a positive one lets the
branch learn what is particular to the base classes. Both grow with how alike two classes are (`margins`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import CosineHead
from fscil.core.options import Amount, Count
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, restored
from fscil.objectives.margins import margin_cross_entropy, related_margins


class ExtraBranch(nn.Module):
    """Features (n, dim) -> wider ones (n, width)."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, features: Tensor) -> Tensor:
        return F.leaky_relu(self.norm(self.linear(features)), 0.1)

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        return restored(lambda: cls(*reversed(state["linear.weight"].shape)), state)


class CLOMObjective(Objective):
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

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        o = self.options
        features = classifier.backbone(views[0].images)
        logits = classifier.head(features)
        # The authors refresh the class relations once an epoch; they are cheap, so here it is every step.
        margins = related_margins(classifier.head.weight[: self.setting.outputs], o.average, o.alike)
        plain = self._loss(logits, views[0], margins)
        extra = self.head(self.branch(features))  # its gradient reaches the features too
        margins = related_margins(self.head.weight, o.extra_average, o.extra_alike)
        return plain + o.weight * self._loss(extra, views[0], margins), logits

    def _loss(self, logits: Tensor, batch: Mixed, margins: Tensor) -> Tensor:
        return margin_cross_entropy(logits, batch, margins, self.setting.scale, self.setting.label_smoothing)

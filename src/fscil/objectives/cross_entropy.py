"""Cross-entropy to mixed labels with label smoothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from fscil.data.augment import Mixed
from fscil.objectives.base import Objective


def mixed_cross_entropy(logits: Tensor, batch: Mixed, smoothing: float = 0.0) -> Tensor:
    """Mean of share * CE(labels) + (1 - share) * CE(others)."""
    one = F.cross_entropy(logits, batch.labels, label_smoothing=smoothing, reduction="none")
    other = F.cross_entropy(logits, batch.others, label_smoothing=smoothing, reduction="none")
    return (batch.share * one + (1 - batch.share) * other).mean()


class CrossEntropy(Objective):
    def forward(self, classifier: nn.Module, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        logits = classifier(views[0].images)
        return mixed_cross_entropy(logits, views[0], self.setting.label_smoothing), logits

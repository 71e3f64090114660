"""Cross-entropy with label smoothing for images that may be mixed from two classes."""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from fscil.data.augment import Mixed
from fscil.objectives.base import Objective


def by_share(batch: Mixed, losses: Callable[[Tensor], Tensor]) -> Tensor:
    """share * losses(labels) + (1 - share) * losses(others), image by image."""
    return batch.share * losses(batch.labels) + (1 - batch.share) * losses(batch.others)


def mixed_cross_entropy(logits: Tensor, batch: Mixed, smoothing: float = 0.0) -> Tensor:
    return by_share(batch, lambda y: F.cross_entropy(logits, y, label_smoothing=smoothing, reduction="none")).mean()


class CrossEntropy(Objective):
    def forward(self, classifier: nn.Module, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        logits = classifier(views[0].images)
        return mixed_cross_entropy(logits, views[0], self.setting.label_smoothing), logits

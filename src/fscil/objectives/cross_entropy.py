"""Cross-entropy with label smoothing for images that may be mixed from two classes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, start_as_linear


def by_share(batch: Mixed, losses: Callable[[Tensor], Tensor]) -> Tensor:
    """share * losses(labels) + (1 - share) * losses(others), image by image."""
    return batch.share * losses(batch.labels) + (1 - batch.share) * losses(batch.others)


def mixed_cross_entropy(logits: Tensor, batch: Mixed, smoothing: float = 0.0) -> Tensor:
    return by_share(batch, lambda y: F.cross_entropy(logits, y, label_smoothing=smoothing, reduction="none")).mean()


class CrossEntropy(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        # First class weights: short ones, or those of a linear layer, as in the code of most published methods.
        first_rows: Literal["short", "linear"] = "short"

    def start(self, classifier: Any) -> None:
        if self.options.first_rows == "linear":
            start_as_linear(classifier.head)

    def forward(self, classifier: nn.Module, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        logits = classifier(views[0].images)
        return mixed_cross_entropy(logits, views[0], self.setting.label_smoothing), logits

"""Base training of IDLVQ (Chen and Lee, ICLR 2021): features near the reference vector of their class.

On the sphere: the posterior of Gaussians of one width around unit vectors is the softmax of a cosine classifier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fscil.backbones import CosineHead
from fscil.core.errors import InputError
from fscil.core.options import Amount
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions
from fscil.objectives.cross_entropy import by_share, mixed_cross_entropy


class IDLVQObjective(Objective):
    """Cross-entropy of the posterior, and the squared distance to the reference vector of the class."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        weight_intra: Amount = 0.01  # of that distance

    def start(self, classifier: Any) -> None:
        if not isinstance(classifier.head, CosineHead):
            raise InputError("train.objective=idlvq trains reference vectors of length 1; set train.head=cosine.")

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        view, logits = views[0], classifier(views[0].images)
        apart = 2 - 2 * logits / classifier.head.scale  # squared distances (n, classes) of unit vectors
        intra = by_share(view, lambda labels: apart.gather(1, labels[:, None])[:, 0]).mean()
        loss = mixed_cross_entropy(logits, view, self.setting.label_smoothing)
        return loss + self.options.weight_intra * intra, torch.as_tensor(logits)

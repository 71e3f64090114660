"""Base training of TOPIC (Tao et al., CVPR 2020): cross-entropy of a linear head without bias on unit features."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones import LinearHead
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective
from fscil.objectives.cross_entropy import mixed_cross_entropy


class TOPICObjective(Objective):
    """A row is as long as it learns to be; a feature has length 1."""

    def start(self, classifier: Any) -> None:
        if not isinstance(classifier.head, LinearHead):
            raise InputError("train.objective=topic trains rows of any length; set train.head=linear.")

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        features = classifier.backbone(views[0].images)
        with torch.autocast(features.device.type, enabled=False):
            logits = F.linear(F.normalize(features.float(), dim=-1), classifier.head.weight)
        return mixed_cross_entropy(logits, views[0], self.setting.label_smoothing), logits

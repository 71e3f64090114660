"""Base training of BiDist (Zhao et al., CVPR 2023): cross-entropy of cosines whose factor is learned with them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fscil.backbones import CosineHead
from fscil.core.errors import InputError
from fscil.core.options import Positive
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, cosine_logits
from fscil.objectives.cross_entropy import mixed_cross_entropy


class BiDistObjective(Objective):
    """Extras: `cosine_scale`, which logits of the sessions have too."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        first_scale: Positive = 10.0  # what the factor starts at

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.cosine_scale = nn.Parameter(torch.tensor(options.first_scale))

    def start(self, classifier: Any) -> None:
        if not isinstance(classifier.head, CosineHead):
            raise InputError("train.objective=bidist learns the factor of cosines; set train.head=cosine.")
        nn.init.normal_(classifier.head.weight, std=math.sqrt(2 / self.setting.dim))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        logits = cosine_logits(classifier.backbone(views[0].images), classifier.head.weight, self.cosine_scale)
        return mixed_cross_entropy(logits, views[0], self.setting.label_smoothing), logits

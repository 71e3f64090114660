"""Base training of DSN (Yang et al., TPAMI 2022): a layer behind the network, and cosines in its space."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.options import Count
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, cosine_logits
from fscil.objectives.cross_entropy import mixed_cross_entropy


class DSNObjective(Objective):
    """Extras: `first.weight` (nodes, d) and, in the space of these nodes, `classes.weight`."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        nodes: Count = 512  # of the layer

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.first = nn.Linear(setting.dim, options.nodes, bias=False)
        self.classes = nn.Linear(options.nodes, setting.outputs, bias=False)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        view, smoothing = views[0], self.setting.label_smoothing
        features = classifier.backbone(view.images)
        with torch.autocast(features.device.type, enabled=False):
            inner = F.linear(features.float(), self.first.weight)
        logits = cosine_logits(inner, self.classes.weight, self.setting.scale)
        # The network's own head learns beside it, from the features and without shaping them.
        probe = mixed_cross_entropy(classifier.head(features.detach()), view, smoothing)
        return mixed_cross_entropy(logits, view, smoothing) + probe - probe.detach(), logits

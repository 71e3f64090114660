"""CEC's second stage of base training (Zhang et al., CVPR 2021): network and attention layer learn on episodes.

An episode has a few base classes and, as new ones, the same images turned by a quarter, a half or three quarters, one
angle for each class. A class's first images make its prototype, the others are to be told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Count
from fscil.data.augment import Mixed
from fscil.data.fantasy import FANTASIES, select
from fscil.objectives.base import Episode, Objective, ObjectiveOptions, Setting
from fscil.objectives.prototype_attention import PrototypeAttention


class CECObjective(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        way: Count = 15  # base classes of an episode, each of which comes a second time turned
        shot: Count = 1  # images that make a class's prototype
        query: Count = 15  # images of a class to tell apart

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.graph = PrototypeAttention(setting.dim)

    def episode(self) -> Episode:
        return Episode(self.options.way, self.options.shot + self.options.query, alone=True)

    def start(self, classifier: Any) -> None:
        """The head is of the first stage and has no part in this one."""
        classifier.head.requires_grad_(False)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        options, pictures = self.options, views[-1].images
        turns = torch.randint(1, 4, (options.way, 1), device=pictures.device)
        turned = select(pictures, FANTASIES[4], turns.expand(-1, options.shot + options.query).flatten())
        features = classifier.backbone(torch.cat([pictures, turned]))
        plain = classifier.head(features[: len(pictures)])
        by_class = features.float().unflatten(0, (2 * options.way, options.shot + options.query))
        support, queries = by_class.split([options.shot, options.query], 1)
        # Cosines of close classes differ in digits that half precision does not have.
        with torch.autocast(pictures.device.type, enabled=False):
            cosines, _ = self.graph(self.graph.table(support.mean(1)), queries.flatten(0, 1))
        labels = torch.arange(len(cosines), device=pictures.device) // options.query
        return F.cross_entropy(self.setting.scale * cosines, labels), plain

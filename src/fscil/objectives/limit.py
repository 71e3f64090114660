"""LIMIT's second stage of base training (Zhou et al., TPAMI 2022): fake tasks, for network, layer and table of classes.

The table has a row for every class, those to come included. In every step the rows of a few base classes are replaced
by few-shot prototypes, as if these classes had just come, and a plain batch of base images is classified with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fscil.core.options import Count, Whole
from fscil.data.augment import Mixed
from fscil.objectives.base import Episode, Objective, ObjectiveOptions, Setting, batched_features
from fscil.objectives.cross_entropy import mixed_cross_entropy
from fscil.objectives.prototype_attention import PrototypeAttention


class LIMITObjective(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        way: Count = 16  # base classes of a step that play new ones
        shot: Count = 1  # images that make the prototype of such a class
        unseen: Whole = 40  # rows of the table for classes to come
        # The official tasks of a step are all alike. With chained queries each gets the query as the one before left
        # it, so that they differ; without, one is as good as many.
        tasks: Count = 32
        chain_queries: bool = True
        unit_query: bool = True  # logits are cosines (False: the query keeps its length; official on mini and CUB)

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.calibration = PrototypeAttention(setting.dim)
        # The official rows of classes to come have been in the classifier since base training began, without a gradient
        # and with weight decay: when meta-training starts, a thousandth or less is left of them.
        self.rows = nn.Parameter(torch.zeros(setting.classes + options.unseen, setting.dim))

    def episode(self) -> Episode:
        return Episode(self.options.way, self.options.shot)

    def every_epoch(self, classifier: Any, images: Tensor, labels: Tensor) -> None:
        """Base rows are class means again; what was learned in them lasts for an epoch, as in the official code."""
        features = batched_features(classifier, images).float()
        sums = torch.zeros_like(self.rows[: self.setting.classes]).index_add_(0, labels, features)
        counts = torch.bincount(labels, minlength=self.setting.classes)
        self.rows.data[: self.setting.classes] = sums / counts.clamp(min=1)[:, None]

    def start(self, classifier: Any) -> None:
        """The head is of the first stage and has no part in this one."""
        classifier.head.requires_grad_(False)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        options, setting, (batch, support) = self.options, self.setting, (views[0], views[-1])
        features = classifier.backbone(torch.cat([batch.images, support.images]))
        plain = classifier.head(features[: len(batch.images)])
        queries, shots = features.float().split([len(batch.images), len(support.images)])
        few = shots.unflatten(0, (options.way, options.shot)).mean(1)
        losses = []
        # Cosines of close classes differ in digits that half precision does not have.
        with torch.autocast(queries.device.type, enabled=False):
            table = self.calibration.table(self.rows.index_copy(0, support.labels[:: options.shot], few))
            for _ in range(options.tasks if options.chain_queries else 1):
                scores, queries = self.calibration(table, queries, options.unit_query)
                logits = setting.scale * scores[:, : setting.classes]
                losses.append(mixed_cross_entropy(logits, batch, setting.label_smoothing))
        return torch.stack(losses).mean(), plain

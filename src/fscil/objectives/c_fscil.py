"""C-FSCIL's base training (Hersche et al., CVPR 2022): a wide layer whose class vectors become quasi-orthogonal.

First plain cross-entropy; then episodes inside every batch: one half of it makes the prototypes, the other half is
compared with them by a sharpened attention.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones.extract import at_one_length
from fscil.core.options import Amount, BelowOne, Count, Positive
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting
from fscil.objectives.cross_entropy import mixed_cross_entropy

SHARPNESS = 10.0


def softabs(cosines: Tensor) -> Tensor:
    """Near 0 for unrelated vectors, near 1 for equal and for opposite ones."""
    return torch.sigmoid(SHARPNESS * (cosines - 0.5)) + torch.sigmoid(SHARPNESS * (-cosines - 0.5))


def squashed_cosines(embedded: Tensor, prototypes: Tensor) -> Tensor:
    """Cosines (n, classes) of vectors with every entry pushed towards -1 or 1."""
    return F.normalize(embedded.tanh(), dim=-1) @ F.normalize(prototypes.tanh(), dim=-1).mT


def episode_losses(embedded: Tensor, prototypes: Tensor, targets: Tensor, present: Tensor | None = None) -> Tensor:
    """(n,) binary cross-entropy, summed over classes, between attention weights and `targets` (n, classes).

    Classes that are not `present` have no prototype and get no attention.
    """
    attention = softabs(squashed_cosines(embedded, prototypes))
    if present is not None:
        attention = attention * present
    weights = (attention / attention.sum(1, keepdim=True)).clamp(1e-6, 1 - 1e-6)
    return -(targets * weights.log() + (1 - targets) * (1 - weights).log()).sum(1)


class CFSCILObjective(Objective):
    """Trains `fc`, the map from features to class vectors, which the method uses too."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        width: Count = 512  # of the vectors that stand for classes
        start: BelowOne = 0.5  # share of the training that is cross-entropy alone
        keep: Amount = 1.0  # weight of cross-entropy after that (official: 0)
        weight: Positive = 1.0  # of the episodes' loss

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.fc = nn.Linear(setting.dim, options.width)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        options, batch = self.options, views[0]
        features = classifier.backbone(batch.images)
        logits = classifier.head(features)
        plain = mixed_cross_entropy(logits, batch, self.setting.label_smoothing)
        with torch.autocast(features.device.type, enabled=False):
            episode = self._episode(self.fc(at_one_length(features.float())), batch)
        later = (progress >= options.start).float()
        return plain * (1 - later + later * options.keep) + later * options.weight * episode, logits

    def _episode(self, embedded: Tensor, batch: Mixed) -> Tensor:
        """The batch is in random order, so that its first half is a fair draw of supports."""
        half, classes = len(embedded) // 2, self.setting.outputs
        one, other = F.one_hot(batch.labels, classes), F.one_hot(batch.others, classes)
        share = batch.share.float()[:, None]  # half precision where the images are
        parts = share * one + (1 - share) * other
        shares = parts[:half].sum(0)
        prototypes = parts[:half].T @ embedded[:half].detach() / shares.clamp(min=1e-6)[:, None]
        present = (shares > 0).float()
        losses = episode_losses(embedded[half:], prototypes, parts[half:], present)
        known = (parts[half:] * present).sum(1)  # an image of a class without support says nothing
        return (losses * known).sum() / known.sum().clamp(min=1)

"""ALICE's base training (Peng et al., ECCV 2022): an angular penalty, two views, and classes fused of two.

Images of two classes are blended into an image of a third: one synthetic class for every pair. With so many classes to
tell apart, by a margin, features spread over the space and leave room between classes for new ones. The penalty works
on a projection that is thrown away afterwards; the features before it are what the method takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.options import Amount, Count, Positive, Whole
from fscil.data.augment import Mixed, symmetric_beta
from fscil.objectives.base import Objective, ObjectiveOptions, Setting
from fscil.objectives.cross_entropy import mixed_cross_entropy


def angular_penalty(cosines: Tensor, labels: Tensor, scale: float, margin: float) -> Tensor:
    """(n,) cross-entropies of scale * cosine, with the margin taken off the cosine of the label (CosFace).

    Not by `objectives.margins`: with fused classes a table of all pairs would have millions of entries.
    """
    off = torch.full_like(labels, margin, dtype=cosines.dtype)[:, None]
    return F.cross_entropy(scale * cosines.scatter_add(1, labels[:, None], -off), labels, reduction="none")


def fused_label(one: Tensor, two: Tensor, classes: int) -> Tensor:
    """The class of two classes, whichever comes first: pairs in order, counted from `classes` on."""
    low, high = torch.minimum(one, two), torch.maximum(one, two)
    return classes + low * (2 * classes - low - 1) // 2 + (high - low) - 1


def fused_share(first: Tensor, second: Tensor, alpha: float) -> Tensor:
    """Shares from two uniform numbers each: Beta(alpha, alpha), and a half where that is not near a half."""
    share = symmetric_beta(alpha, first, second)
    return torch.where((share < 0.4) | (share > 0.6), 0.5, share)


class ALICEObjective(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        scale: Positive = 30.0  # s: factor of the cosines
        margin: float = 0.4  # m: taken off the cosine of the true class
        fused: Amount = 4.0  # fused images per real one, 0: none; a step costs 2 * (1 + fused) forward passes
        alpha: Positive = 20.0  # Beta(alpha, alpha) gives the share of the first image in a fused one
        width: Count = 2048  # of the projection
        spare: Whole = 0  # rows of the head that no image belongs to (released: 120, meant for classes to come)

    views = 2

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        width = options.width
        self.projection = nn.Sequential(
            nn.Linear(setting.dim, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.BatchNorm1d(width, affine=False),
        )
        pairs = setting.outputs * (setting.outputs - 1) // 2 if options.fused else 0
        rows = setting.outputs + pairs + options.spare
        self.rows = nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, width)))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        size, device = len(views[0].labels), views[0].labels.device
        # Fused images come from whole random orders of the batch, and a part of one more; the same in both views.
        count = round(self.options.fused * size)
        orders = torch.rand(-(-count // size), size, device=device).argsort(1)
        partners = orders.flatten()[:count]
        firsts = torch.arange(count, device=device) % size
        first, second = torch.rand(2, count, device=device)
        share = fused_share(first, second, self.options.alpha)
        (one, logits), (two, _) = (self._view(classifier, view, firsts, partners, share) for view in views)
        # The network's own head learns from the features without shaping them.
        probe = mixed_cross_entropy(logits, views[0], self.setting.label_smoothing)
        return (one + two) / 2 + probe, logits

    def _view(
        self, classifier: Any, view: Mixed, firsts: Tensor, partners: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        blend = share[:, None, None, None].to(view.images.dtype)
        fused = blend * view.images[firsts] + (1 - blend) * view.images[partners]
        features = classifier.backbone(torch.cat([view.images, fused]))
        size, scale, margin = len(view.labels), self.options.scale, self.options.margin
        one, two = view.labels[firsts], view.labels[partners]
        projected = self.projection(features)
        with torch.autocast(features.device.type, enabled=False):
            cosines = F.linear(F.normalize(projected.float(), dim=-1), F.normalize(self.rows.float(), dim=-1))
        labels = torch.cat([view.labels, fused_label(one, two, self.setting.outputs)])
        loss = angular_penalty(cosines, labels, scale, margin)
        other = angular_penalty(cosines[:size], view.others, scale, margin)
        real = view.share * loss[:size] + (1 - view.share) * other
        # Two images of one class make no fused one; it is masked, since dropping it would change the batch's shape.
        counts = (one != two).to(real.dtype)
        mean = (real.sum() + (loss[size:] * counts).sum()) / (size + counts.sum())
        return mean, classifier.head(features[:size].detach())

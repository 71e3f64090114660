"""FACT's base training (Zhou et al., CVPR 2022): virtual prototypes keep room for classes to come.

In addition to cross-entropy: the second-best label of an image is a virtual class; and an image mixed from two classes
half-way through the network belongs to a virtual class first and to its nearest base class second.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import Backbone, CosineHead
from fscil.core.errors import InputError
from fscil.core.options import Amount, Bounds, Count, Positive, Share, Whole
from fscil.data.augment import Mixed, symmetric_beta
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, cosine_logits
from fscil.objectives.cross_entropy import mixed_cross_entropy

_NEVER = -1e9  # the logit of a label that is ruled out


def mixture_losses(logits: Tensor, classes: int) -> Tensor:
    """(n,) losses of mixed images, of logits over the real `classes` and then the virtual ones.

    Labels are the logits' own: the best virtual class, and once that is ruled out the best real one.
    """
    virtual = classes + logits[:, classes:].detach().argmax(1)
    real = logits[:, :classes].detach().argmax(1)
    first = F.cross_entropy(logits, virtual, reduction="none")
    second = F.cross_entropy(logits.scatter(1, virtual[:, None], _NEVER), real, reduction="none")
    return first + second


def second_best_loss(logits: Tensor, batch: Mixed, classes: int, attached: Tensor, released: bool) -> Tensor:
    """With its own label ruled out, an image belongs to the nearest virtual class among those attached to its label.

    `released`: the others are not ruled out but have a logit of 0, which wins over attached ones below it; a class to
    which none is attached then takes the first.
    """
    allowed, virtual = attached[batch.labels], logits[:, classes:].detach()
    if not released:
        allowed = allowed | ~allowed.any(1, keepdim=True)  # a class to which none is attached may take any
    target = classes + virtual.masked_fill(~allowed, 0.0 if released else -math.inf).argmax(1)
    ruled_out = logits.scatter(1, batch.labels[:, None], _NEVER).scatter(1, batch.others[:, None], _NEVER)
    return F.cross_entropy(ruled_out, target)


class FACTObjective(Objective):
    """`virtual` is trained, and the method uses it too; `anchors`, where it started, stay as they are."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        virtual: Count = 40  # prototypes kept for classes to come
        balance: Amount = 0.01  # weight of the three losses added to cross-entropy; 0: cross-entropy alone
        alpha: Positive = 0.5  # Beta(alpha, alpha) gives the share of the first image in a mixture
        attached: Whole = 3  # base classes that each virtual class may be second best for; 0: all, as in the paper
        # Which virtual class is second best: the nearest of those attached, or whatever the released mask leaves.
        choice: Literal["nearest", "released"] = "nearest"
        start: Share = 0.0  # share of the training after which the three losses come in
        # Stage of the network after which images are mixed; 0: before the first, -1: the middle one.
        mix_after: Annotated[int, Bounds(low=-1)] = -1

    anchors: Tensor
    attached: Tensor

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        # Base rows and virtual ones are drawn as one matrix: orthogonal to each other as far as there is room.
        rows = nn.init.orthogonal_(torch.empty(setting.outputs + options.virtual, setting.dim))
        self.first_rows, virtual = rows.split([setting.outputs, options.virtual])
        self.virtual = nn.Parameter(virtual.clone(), requires_grad=options.balance > 0)
        self.register_buffer("anchors", virtual.clone())
        chances = torch.rand(setting.outputs, options.virtual)
        rank = chances.argsort(0).argsort(0)  # in each column the numbers 0, 1, ... in random order
        self.register_buffer("attached", rank < (options.attached or setting.outputs))

    def start(self, classifier: Any) -> None:
        if isinstance(classifier.head, CosineHead):
            classifier.head.weight.copy_(self.first_rows)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        options, setting, batch = self.options, self.setting, views[0]
        backbone, head = classifier.backbone, classifier.head
        if not isinstance(backbone, Backbone) or not isinstance(head, CosineHead):
            raise InputError("train.objective=fact needs class vectors in the space of the features; set head=cosine.")
        if not options.balance:
            logits = head(backbone(batch.images))
            return mixed_cross_entropy(logits, batch, setting.label_smoothing), logits
        # The middle stage is layer 2 of 3 or of 4 in the published ResNets.
        stage = options.mix_after if options.mix_after >= 0 else (backbone.stages + 1) // 2
        inner = backbone.forward_until(batch.images, stage)
        features = backbone.forward_from(inner, stage)
        logits = head(features)
        loss = mixed_cross_entropy(logits, batch, setting.label_smoothing)
        with_anchors = torch.cat([logits, cosine_logits(features, self.anchors, setting.scale)], 1)
        kept = second_best_loss(with_anchors, batch, setting.outputs, self.attached, options.choice == "released")
        partner = torch.rand(len(batch.labels), device=inner.device).argsort()
        share = symmetric_beta(options.alpha, *torch.rand(2, device=inner.device).unbind()).to(inner.dtype)
        mixed = backbone.forward_from(share * inner + (1 - share) * inner[partner], stage)
        two_classes = (batch.labels != batch.labels[partner]).float()
        with_virtual = torch.cat([head(mixed), cosine_logits(mixed, self.virtual, setting.scale)], 1)
        on_mixed = mixture_losses(with_virtual, setting.outputs)
        kept = kept + (on_mixed * two_classes).sum() / two_classes.sum().clamp(min=1)
        return loss + options.balance * (progress >= options.start) * kept, logits

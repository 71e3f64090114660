"""SoftNet's base training (Kang et al., ICLR 2023): weights, and which of them matter, are learned together.

Every weight of a convolution or a linear layer has a score. The weights with the highest ones, a share of every layer,
count in full and are called major; the others count by a factor between 0 and 1 that is drawn anew in every step. What
remains at the end is the network with one such draw in its weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fscil.core.options import Share, Whole
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting
from fscil.objectives.cross_entropy import mixed_cross_entropy


def maskable(backbone: nn.Module) -> dict[str, Tensor]:
    """The weights that a mask lies on, by name."""
    modules = backbone.named_modules()
    return {f"{name}.weight": part.weight for name, part in modules if isinstance(part, nn.Conv2d | nn.Linear)}


def major(scores: Tensor, share: float) -> Tensor:
    """Where a layer's scores are largest, whatever their sign: a share of them, and no fewer than one."""
    sizes = scores.detach().abs()
    place = 1 + round((1 - share) * (sizes.numel() - 1))
    return sizes >= sizes.flatten().kthvalue(place).values


def in_a_name(name: str) -> str:
    """The name of a weight as part of another one, where dots part modules."""
    return name.replace(".", "/")


class SoftNetObjective(Objective):
    """Extras: `scores.NAME` and, of the network as it is kept, `masks.NAME`, for every weight of `maskable`."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        share: Share = 0.8  # of a layer's weights that are major (the paper's c)
        soft: bool = True  # False: the others count for nothing (HardNet)
        spare: Whole = 0  # rows of the head besides those of the base classes (CIFAR-100: 40)

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.scores = nn.ParameterDict()
        # What minor weights count by in the network that is kept; in the end the whole mask.
        self.masks = nn.Module()

    @classmethod
    def extra_rows(cls, options: Any, classes: int) -> int:
        return int(options.spare)

    def start(self, classifier: Any) -> None:
        for name, weight in maskable(classifier.backbone).items():
            scores = torch.empty_like(weight)
            nn.init.kaiming_uniform_(scores, a=math.sqrt(5))
            self.scores[in_a_name(name)] = nn.Parameter(scores)
            self.masks.register_buffer(in_a_name(name), torch.rand_like(weight))

    def forward(self, classifier: nn.Module, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        masked = {}
        for name, weight in maskable(classifier.backbone).items():  # type: ignore[arg-type]
            scores = self.scores[in_a_name(name)]
            mask = self._mask(scores, torch.rand_like(scores))
            # The mask's gradient is the scores' (straight through): what is added is 0.
            masked[f"backbone.{name}"] = weight * (mask + (scores - scores.detach()))
        logits = functional_call(classifier, masked, (views[0].images,))
        return mixed_cross_entropy(logits, views[0], self.setting.label_smoothing), logits

    def finish(self, classifier: Any) -> None:
        for name, weight in maskable(classifier.backbone).items():
            held = self.masks.get_buffer(in_a_name(name))
            held.copy_(self._mask(self.scores[in_a_name(name)], held))
            weight.mul_(held)

    def _mask(self, scores: Tensor, drawn: Tensor) -> Tensor:
        minor = drawn if self.options.soft else torch.zeros_like(drawn)
        return torch.where(major(scores, self.options.share), 1.0, minor)

"""S3C's base training (Kalla and Biswas, ECCV 2022): a classifier whose weights are drawn anew in every step.

Its weights are Gaussians, whose means and deviations are learned; every class has one row per quarter turn of its
images. The features pass through an attention block of one token first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.data.fantasy import FANTASIES, expand
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, cosine_logits, restored
from fscil.objectives.cross_entropy import mixed_cross_entropy

SIGMA_SHIFT = 4.0  # deviation = softplus(sigma - 4): 0.018 where sigma is 0, its start


def stochastic_weights(mean: Tensor, sigma: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One draw of the classifier's weights."""
    noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
    return mean + F.softplus(sigma - SIGMA_SHIFT) * noise


class TokenAttention(nn.Module):
    """Self-attention over one token: LayerNorm(x + Drop(W_o Drop(1) W_v x + b)).

    With one token the attention weight is 1 whatever query and key are, so there are none.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim, bias=False)
        self.output = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        nn.init.xavier_normal_(self.value.weight)
        nn.init.xavier_normal_(self.output.weight)

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Dropout works in training mode; a generator makes it repeatable."""
        value = self.value(x)
        if self.training:
            value = value * _kept(x[:, :1], 0.1, generator)  # the attention weight is one number for the whole token
        added = self.output(value)
        return self.norm(x + added * _kept(added, 0.5, generator) if self.training else x + added)

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        return restored(lambda: cls(len(state["value.weight"])), state)


def _kept(like: Tensor, probability: float, generator: torch.Generator | None) -> Tensor:
    """Dropout's factors: 0 with that probability, else what keeps the mean."""
    drawn = torch.rand(like.shape, device=like.device, generator=generator)
    return (drawn >= probability).to(like.dtype) / (1 - probability)


class S3CObjective(Objective):
    """Rows of turn r of class y: `mu[y + classes * r]`, `sigma` likewise."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        # Turns of every image that a step sees: 4 as published; or 1, for a quarter of the cost, with augment.turn.
        turns: Literal[1, 4] = 1

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        if options.turns > 1 and setting.outputs > setting.classes:
            raise InputError(f"{options.prefix}turns={options.turns} turns images itself; set train.augment.turn to 0.")
        rows = options.turns * setting.outputs
        self.attention = TokenAttention(setting.dim)
        self.mu = nn.Parameter(0.01 * torch.randn(rows, setting.dim))
        self.sigma = nn.Parameter(torch.zeros(rows, setting.dim))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        view, turns, smoothing = views[0], self.options.turns, self.setting.label_smoothing
        batch = self._turned(view) if turns > 1 else view
        features = classifier.backbone(batch.images)
        weights = stochastic_weights(self.mu, self.sigma)
        loss = mixed_cross_entropy(
            cosine_logits(self.attention(features), weights, self.setting.scale), batch, smoothing
        )
        # The network's own head learns from the features of unturned images without shaping them.
        logits = classifier.head(features[::turns].detach())
        return loss + mixed_cross_entropy(logits, view, smoothing), logits

    def _turned(self, view: Mixed) -> Mixed:
        transforms, classes = FANTASIES[self.options.turns], self.setting.classes
        images, labels = expand(view.images, view.labels, transforms, classes)
        _, others = expand(view.images, view.others, transforms, classes)
        return Mixed(images, labels, others, view.share.repeat_interleave(len(transforms)))

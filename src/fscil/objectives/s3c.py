"""S3C's base training (Kalla and Biswas, ECCV 2022): a classifier whose weights are drawn anew in every step.

The head's weights are the means of Gaussians; their deviations are learned too. With `train.augment.turn` every class
has one row per quarter turn. The features pass through an attention block of one token first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import CosineHead
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, Setting, cosine_logits, restored
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
    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.attention = TokenAttention(setting.dim)
        self.sigma = nn.Parameter(torch.zeros(setting.outputs, setting.dim))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        if not isinstance(classifier.head, CosineHead):
            raise InputError("train.objective=s3c draws the weights of a cosine head; set train.head to cosine.")
        weights = stochastic_weights(classifier.head.weight, self.sigma)
        logits = cosine_logits(self.attention(classifier.backbone(views[0].images)), weights, self.setting.scale)
        return mixed_cross_entropy(logits, views[0], self.setting.label_smoothing), logits

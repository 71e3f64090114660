"""The optimizer of base training, and its learning rate by step."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from fscil.core.config import TrainConfig
from fscil.training.lars import Lars
from fscil.training.loss import TrainingLoss

TRUST = 0.02  # lars: of a matrix's length, the longest step that a gradient may take alone


def make_optimizer(model: TrainingLoss, train: TrainConfig, fused: bool) -> torch.optim.Optimizer:
    """Its groups say by their `factor` how their rate stands to the training's."""
    groups = _groups(model, train)
    if train.optimizer == "adamw":
        # A recorded step reads the rate from a tensor, which on a GPU needs `capturable`.
        return torch.optim.AdamW(groups, lr=train.lr, betas=(0.9, train.beta2), fused=fused, capturable=fused)
    nesterov = train.nesterov and train.momentum > 0
    if train.optimizer == "lars":
        return Lars(groups, lr=train.lr, momentum=train.momentum, nesterov=nesterov, trust=TRUST)
    return torch.optim.SGD(groups, lr=train.lr, momentum=train.momentum, nesterov=nesterov, fused=fused)


def _groups(model: TrainingLoss, train: TrainConfig) -> list[dict[str, Any]]:
    """By default weight decay is on matrices only, as usual for ViTs: not on biases, norms, tokens and positions."""
    own = {id(parameter) for parameter in model.objective.parameters()}
    special = model.objective.groups(model.classifier)
    taken = {id(parameter) for group in special for parameter in group.parameters}
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if id(parameter) in taken:
            continue
        free = train.decay == "matrices" and (parameter.ndim < 2 or "pos_embed" in name or "cls_token" in name)
        groups.setdefault((free, train.objective_rate if id(parameter) in own else 1.0), []).append(parameter)
    # Decayed ones first: a state numbers its parameters by this order.
    usual = [
        {"params": parameters, "weight_decay": 0.0 if free else train.weight_decay, "factor": factor}
        for (free, factor), parameters in sorted(groups.items(), key=lambda group: group[0])
    ]
    return usual + [
        {
            "params": list(group.parameters),
            "weight_decay": train.weight_decay if group.weight_decay is None else group.weight_decay,
            "factor": group.factor,
        }
        for group in special
    ]


def learning_rate(
    step: int, total: int, warmup: int, peak: float, minimum: float, drops: Sequence[int] = (), gamma: float = 0.1
) -> float:
    """Of one step: a linear warm-up, then a cosine down to the minimum, or a drop by gamma at each of the `drops`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    if drops:
        return peak * gamma ** sum(step >= drop for drop in drops)
    progress = (step - warmup) / max(1, total - warmup)
    return minimum + 0.5 * (peak - minimum) * (1 + math.cos(math.pi * min(1.0, progress)))

"""The optimizer of base training, and its learning rate by step."""

import math
from typing import Any

import torch
from torch import nn

from fscil.core.config import TrainConfig


def make_optimizer(model: nn.Module, train: TrainConfig, fused: bool) -> torch.optim.Optimizer:
    groups = _decay_groups(model, train.weight_decay)
    if train.optimizer == "adamw":
        # A recorded step reads the rate from a tensor, which on a GPU needs `capturable`.
        return torch.optim.AdamW(groups, lr=train.lr, betas=(0.9, train.beta2), fused=fused, capturable=fused)
    return torch.optim.SGD(groups, lr=train.lr, momentum=train.momentum, nesterov=train.momentum > 0, fused=fused)


def _decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay on matrices only, as usual for ViTs: not on biases, norms, tokens and position embeddings."""
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (weight_decay, 0.0)]
    for name, parameter in model.named_parameters():
        plain = parameter.ndim < 2 or "pos_embed" in name or "cls_token" in name
        groups[plain]["params"].append(parameter)
    return groups


def learning_rate(step: int, total: int, warmup: int, peak: float, minimum: float) -> float:
    """Of one step: a linear warm-up, then a cosine down to the minimum."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return minimum + 0.5 * (peak - minimum) * (1 + math.cos(math.pi * min(1.0, progress)))

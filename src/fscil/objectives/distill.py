"""Learning from a teacher that sees the same mixed image.

- hard: cross-entropy to the teacher's argmax (the paper's base training, after DeiT, arXiv 2012.12877).
- soft: KL divergence at temperature T (Hinton et al., arXiv 1503.02531).
- zscore: KL of logits standardised per sample (arXiv 2403.01427), which frees the student from the teacher's scale.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def distillation(
    student: Tensor, teachers: Sequence[Tensor], kind: Literal["hard", "soft", "zscore"], temperature: float = 1.0
) -> Tensor:
    """The loss between logits (n, classes) of a student and of its teachers, taken together as their mean."""
    logits = torch.stack(list(teachers))  # (teachers, n, classes)
    if kind == "hard":
        return F.cross_entropy(student, logits.softmax(-1).mean(0).argmax(1))
    if kind == "zscore":
        student = _standardise(student)
        target = F.log_softmax(_standardise(logits).mean(0) / temperature, dim=1)
    else:
        target = F.softmax(logits / temperature, dim=-1).mean(0).clamp(min=1e-12).log()
    learned = F.log_softmax(student / temperature, dim=1)
    return temperature**2 * F.kl_div(learned, target, log_target=True, reduction="batchmean")


def _standardise(logits: Tensor) -> Tensor:
    return (logits - logits.mean(-1, keepdim=True)) / (logits.std(-1, keepdim=True) + 1e-7)

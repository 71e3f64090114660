"""Learning from a teacher that sees the same mixed image.

- hard: cross-entropy to the teacher's argmax (the paper's base training, after DeiT, arXiv 2012.12877).
- soft: KL divergence at temperature T (Hinton et al., arXiv 1503.02531).
- zscore: KL of logits standardised per sample (arXiv 2403.01427), which frees the student from the teacher's scale.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from fscil.errors import InputError

KINDS = ("hard", "soft", "zscore")


def distillation(student: Tensor, teacher: Tensor, kind: str, temperature: float = 1.0) -> Tensor:
    """The loss between logits (n, classes) of student and teacher."""
    if kind == "hard":
        return F.cross_entropy(student, teacher.argmax(1))
    if kind == "zscore":
        student, teacher = _standardise(student), _standardise(teacher)
    elif kind != "soft":
        raise InputError(f"train.distill must be one of {', '.join(KINDS)}; got '{kind}'.")
    p = F.log_softmax(teacher / temperature, dim=1)
    q = F.log_softmax(student / temperature, dim=1)
    return F.kl_div(q, p, log_target=True, reduction="batchmean") * temperature**2


def _standardise(logits: Tensor) -> Tensor:
    return (logits - logits.mean(1, keepdim=True)) / (logits.std(1, keepdim=True) + 1e-7)

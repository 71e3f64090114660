"""What base training minimises."""

from fscil.objectives.cross_entropy import mixed_cross_entropy
from fscil.objectives.distill import distillation

__all__ = ["distillation", "mixed_cross_entropy"]

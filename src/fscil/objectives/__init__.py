"""What base training minimises."""

from fscil.objectives.cross_entropy import mixed_cross_entropy
from fscil.objectives.distill import distillation
from fscil.objectives.dot_regression import dot_regression

OBJECTIVES = ("cross_entropy", "dot_regression")

__all__ = ["OBJECTIVES", "distillation", "dot_regression", "mixed_cross_entropy"]

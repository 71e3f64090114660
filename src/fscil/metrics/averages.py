"""Means over sessions and tasks, where some of them have no value."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def mean_defined(values: Sequence[float | None]) -> float | None:
    """The mean of the values that exist; None when none does (never NaN, which JSON cannot hold)."""
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None

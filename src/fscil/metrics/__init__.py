"""Metrics of few-shot class-incremental learning: pure functions of an accuracy matrix, in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fscil.metrics.accuracy import (
    aacc,
    aacc_per_session,
    base_acc,
    base_acc_per_session,
    lacc,
    novel_acc,
    novel_acc_per_session,
    tacc,
    tacc_per_session,
)
from fscil.metrics.balance import (
    AtZero,
    gacc_at,
    gacc_curve,
    gacc_exact,
    gacc_exact_per_session,
    gacc_grid,
    gacc_grid_per_session,
    grid_steps,
    hacc,
    hacc_per_session,
)
from fscil.metrics.forgetting import (
    aacc_drop,
    knowledge_rate,
    knowledge_rate_per_task,
    max_forgetting,
    max_forgetting_per_task,
    performance_drop,
    performance_drop_per_task,
    relative_drop,
    relative_drop_per_task,
)
from fscil.metrics.summary import Summary, summary

if TYPE_CHECKING:
    from fscil.metrics.streaming import IncrementalAccuracy

__all__ = [
    "AtZero", "IncrementalAccuracy", "Summary", "aacc", "aacc_drop", "aacc_per_session", "base_acc",
    "base_acc_per_session", "gacc_at", "gacc_curve", "gacc_exact", "gacc_exact_per_session", "gacc_grid",
    "gacc_grid_per_session", "grid_steps", "hacc", "hacc_per_session", "knowledge_rate", "knowledge_rate_per_task",
    "lacc", "max_forgetting", "max_forgetting_per_task", "novel_acc", "novel_acc_per_session", "performance_drop",
    "performance_drop_per_task", "relative_drop", "relative_drop_per_task", "summary", "tacc", "tacc_per_session",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load torch only for those who stream: a metric of a file should not wait for it."""
    if name == "IncrementalAccuracy":
        from fscil.metrics.streaming import IncrementalAccuracy

        return IncrementalAccuracy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

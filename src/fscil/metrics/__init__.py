"""Metrics of few-shot class-incremental learning: pure functions of an accuracy matrix, in percent."""

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

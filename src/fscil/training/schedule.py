"""Learning rate by step: linear warm-up, then a cosine down to the minimum."""

from __future__ import annotations

import math


def learning_rate(step: int, total: int, warmup: int, peak: float, minimum: float) -> float:
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return minimum + 0.5 * (peak - minimum) * (1 + math.cos(math.pi * min(1.0, progress)))

"""Is a difference more than luck? Paired over the draws, against one reference, corrected for asking many times.

Student's t for paired differences: with the three draws that are usual here a permutation test could not give a p-value
below 0.25 whatever was measured, while t makes up for few draws by wide intervals. It assumes that the differences are
about normal. Holm's step-down correction keeps the chance of even one false alarm in a family (one score, all methods
against one reference) at 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from fscil.results.bench import Bench
from fscil.results.comparison import spread

LEVEL = 0.05
_TINY = 1e-9  # percent: rounding of floats


@dataclass(frozen=True)
class Comparison:
    """A method minus the reference, over the draws both have."""

    method: str
    mean: float
    draws: int
    half: float | None = None  # half the width of the 95 % interval; None where the draws cannot tell
    p: float | None = None
    adjusted: float | None = None  # p after Holm's correction

    @property
    def clear(self) -> bool:
        return self.adjusted is not None and self.adjusted < LEVEL

    @property
    def verdict(self) -> str:
        """above, below, or not told apart."""
        if not self.clear:
            return "not told apart"
        return "above" if self.mean > 0 else "below"


def compare(bench: Bench, reference: str, key: str) -> list[Comparison]:
    """Every other method against the reference, in the order of the rows."""
    theirs = bench.values(reference, key)
    found = []
    for row in bench.rows:
        ours = bench.values(row.method, key)
        gaps = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
        if row.method != reference and gaps:
            found.append(paired(row.method, gaps))
    return corrected(found)


def paired(method: str, gaps: Sequence[float]) -> Comparison:
    """Mean, 95 % interval and two-sided p of Student's t."""
    gap = spread(gaps)
    if gap.std is None or gap.std <= _TINY:
        # One draw, or the same difference on every draw: what the draws leave untouched they cannot judge.
        return Comparison(method, gap.mean, gap.draws)
    from scipy import stats  # slow to import

    error, freedom = gap.std / sqrt(gap.draws), gap.draws - 1
    half = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(gap.mean) / error, freedom))
    return Comparison(method, gap.mean, gap.draws, half, p)


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Holm (1979): the smallest p times m, the next times m - 1, and so on, never smaller than the one before."""
    judged = sorted((c for c in comparisons if c.p is not None), key=lambda c: c.p or 0.0)
    adjusted: dict[str, float] = {}
    largest = 0.0
    for place, comparison in enumerate(judged):
        largest = max(largest, min(1.0, (len(judged) - place) * (comparison.p or 0.0)))
        adjusted[comparison.method] = largest
    return [Comparison(c.method, c.mean, c.draws, c.half, c.p, adjusted.get(c.method)) for c in comparisons]


def rank_agreement(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Kendall's tau between two orders of the same names: 1 alike, 0 unrelated, -1 reversed."""
    if len(first) < 3:
        return None
    from scipy import stats

    return float(stats.kendalltau(range(len(first)), [list(second).index(name) for name in first]).statistic)

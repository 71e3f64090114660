"""Is a difference more than luck? The one rule of this project: paired over the draws, Student's t, Holm's correction.

Student's t for paired differences: with the three draws that are usual here a permutation test could not give a p-value
below 0.25 whatever was measured, while t makes up for few draws by wide intervals. It assumes that the differences are
about normal. Holm's step-down correction keeps the chance of even one false alarm in a family (one score, everything
that is compared with one reference) at 5 %.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import TypeVar

LEVEL = 0.05
_TINY = 1e-9  # percent: rounding of floats

Draw = TypeVar("Draw", bound=Hashable)
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Spread:
    """Mean over draws; the standard deviation (n - 1) needs two of them."""

    mean: float
    std: float | None
    draws: int


def spread(values: Sequence[float]) -> Spread:
    """Of one value per draw.

    Examples:
        >>> spread([57.0, 58.0, 59.0])
        Spread(mean=58.0, std=1.0, draws=3)
    """
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class Difference:
    """One thing minus its reference, over the draws both have."""

    mean: float
    draws: int
    error: float | None = None  # standard error; None on one draw
    half: float | None = None  # half the width of the 95 % interval; None where the draws cannot judge
    p: float | None = None
    adjusted: float | None = None  # p after Holm's correction

    @property
    def judged(self) -> bool:
        """Whether chance can be told from effect. Not on one draw, and not where every draw shows the same difference:
        what the draws leave untouched (such as the base session of one trained network) they cannot judge.
        """
        return self.p is not None or (self.error is not None and abs(self.mean) <= _TINY)

    @property
    def clear(self) -> bool:
        """Whether it is more than luck, by the one rule."""
        return self.adjusted is not None and self.adjusted < LEVEL

    @property
    def verdict(self) -> str:
        """above, below, or not told apart."""
        if not self.clear:
            return "not told apart"
        return "above" if self.mean > 0 else "below"


def paired(gaps: Sequence[float]) -> Difference:
    """Mean, standard error, 95 % interval and two-sided p of Student's t: a family of one."""
    gap = spread(gaps)
    if gap.std is None:
        return Difference(gap.mean, gap.draws)
    error = gap.std / sqrt(gap.draws)
    if gap.std <= _TINY:
        return Difference(gap.mean, gap.draws, error)
    from scipy import stats  # slow to import

    freedom = gap.draws - 1
    half = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(gap.mean) / error, freedom))
    return Difference(gap.mean, gap.draws, error, half, p, p)


def corrected(family: Mapping[Name, Difference]) -> dict[Name, Difference]:
    """Holm (1979): the smallest p times m, the next times m - 1, and so on, never smaller than the one before."""
    judged = sorted((d.p, place, name) for place, (name, d) in enumerate(family.items()) if d.p is not None)
    adjusted: dict[Name, float] = {}
    largest = 0.0
    for rank, (p, _, name) in enumerate(judged):
        largest = max(largest, min(1.0, (len(judged) - rank) * p))
        adjusted[name] = largest
    return {name: replace(difference, adjusted=adjusted.get(name)) for name, difference in family.items()}


def compare(values: Mapping[Name, Mapping[Draw, float]], reference: Name) -> dict[Name, Difference]:
    """Everything else against the reference on the draws both have: one family.

    Examples:
        Scores of two methods on the same five draws of the shots.

        >>> means = {0: 57.9, 1: 58.4, 2: 57.2, 3: 58.0, 4: 57.6}
        >>> mine = {0: 59.0, 1: 59.3, 2: 58.6, 3: 58.9, 4: 58.8}
        >>> difference = compare({"means": means, "mine": mine}, reference="means")["mine"]
        >>> round(difference.mean, 2), difference.draws, difference.verdict
        (1.1, 5, 'above')
    """
    theirs = values.get(reference, {})
    family = {}
    for name, ours in values.items():
        gaps = [value - theirs[draw] for draw, value in ours.items() if draw in theirs]
        if name != reference and gaps:
            family[name] = paired(gaps)
    return corrected(family)


def rank_agreement(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau of two scores of the same things: 1 the same order, 0 unrelated, -1 reversed."""
    from scipy import stats

    return float(stats.kendalltau(first, second).statistic)

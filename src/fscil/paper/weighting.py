"""Where the mean column and the session columns weigh differently, and by how much that can move a mean.

The released code pools test images for the aAcc of a session, but takes the overall aAcc as gAcc at alpha = 1, which
weighs classes. That is the same number only if every class has equally many test images: not so on CUB-200, where base
classes have fewer on average, so that the overall aAcc comes out above the mean of the sessions.
"""

from functools import cache
from itertools import accumulate
from statistics import fmean

from fscil.paper.interval import Interval
from fscil.paper.inversion import gacc_weights, inversions, task_slacks
from fscil.paper.printed import BenchmarkPlan, PrintedCell


def mean_slack(plan: BenchmarkPlan) -> float:
    """How far the mean aAcc moves at most when every task's accuracy is rounded to 0.1 percent first."""
    base_slack, novel_slack = task_slacks(plan)
    shares = [plan.ratio / (plan.ratio + n) for n in range(plan.sessions)]
    return fmean(share * base_slack + (1 - share) * novel_slack for share in shares)


def mean_offset(plan: BenchmarkPlan, first: Interval, pooled: Interval, gacc: PrintedCell | None) -> Interval:
    """Bounds of the class-weighted mean minus the mean of the pooled cells.

    In a session with base accuracy b and novel accuracy m the offset is delta (b - m), and gAcc lies kappa (b - m)
    below the class-weighted aAcc. So the distance of a row to its printed gAcc fixes the offset up to how the gap b - m
    is spread over the sessions, which we bound by `gap_spread`. Without a gAcc the gap may be anything from 0 to 100.
    """
    if plan.balanced:
        return Interval.point(0.0)
    deltas = _share_differences(plan)
    if gacc is None:
        low, high = sum(min(delta, 0.0) for delta in deltas), sum(max(delta, 0.0) for delta in deltas)
        return Interval(low, high) * (100 / plan.sessions)
    ratio = plan.ratio
    kappas = [novel - n / (ratio + n) for n, (_, novel) in enumerate(gacc_weights(plan)["grid"])][1:]
    # The mean distance, less that of the base session, which is due to the rule at alpha = 0.
    distance = pooled - gacc.interval - first * (1 / (2 * ratio * plan.sessions))
    quotients = _quotients(deltas, kappas, gap_spread())
    # The distance starts at the pooled mean, an offset below the class-weighted one: hence q / (1 - q), not q.
    ends = [q / (1 - q) * end for q in (quotients.low, quotients.high) for end in (distance.low, distance.high)]
    return Interval(min(ends), max(ends))


@cache
def gap_spread() -> Interval:
    """The gap between base and novel accuracy relative to its mean over sessions: the range over all rows known."""
    relative = []
    for inversion in inversions().values():
        pairs = zip(inversion.base[1:], inversion.novel[1:], strict=True)
        gaps = [base.middle - novel.middle for base, novel in pairs]
        relative += [gap / fmean(gaps) for gap in gaps]
    return Interval(min(relative), max(relative))


def _quotients(deltas: list[float], kappas: list[float], spread: Interval) -> Interval:
    """The range of sum(delta g) / sum(kappa g) for gaps g within the spread.

    Such a quotient is extreme when the sessions on one side of a threshold of delta/kappa have the widest gap and all
    others the narrowest.
    """
    pairs = sorted(zip(deltas, kappas, strict=True), key=lambda pair: pair[0] / pair[1])
    found = []
    for split in range(len(pairs) + 1):
        for low, high in ((spread.low, spread.high), (spread.high, spread.low)):
            gaps = [low] * split + [high] * (len(pairs) - split)
            total = [sum(pair[side] * gap for pair, gap in zip(pairs, gaps, strict=True)) for side in (0, 1)]
            found.append(total[0] / total[1])
    return Interval(min(found), max(found))


def _share_differences(plan: BenchmarkPlan) -> list[float]:
    """Per incremental session: the base share by classes minus the base share by test images."""
    images = accumulate(plan.session_images)
    return [
        plan.ratio / (plan.ratio + n) - plan.base_images / (plan.base_images + novel)
        for n, novel in enumerate(images, start=1)
    ]

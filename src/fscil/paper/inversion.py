"""From a printed aAcc row and a printed novel row back to base accuracies, and from those to gAcc, with error bounds.

With n novel sessions, r = |Y_1|/|Y_novel| and novel accuracy m_i, eq. 3 gives the base accuracy

    b_i = ((r + n) aAcc_i - n m_i) / r.

gAcc_i is linear in b_i and m_i, hence in the two printed cells. Its bounds are taken on that combined form: bounds on
b_i first would be far too wide, as b_i and m_i err in opposite directions for a given aAcc_i.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Literal

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import gacc_exact_per_session, gacc_grid_per_session
from fscil.paper.interval import Interval, mean
from fscil.paper.printed import BenchmarkPlan, PrintedCell, datasets, tables

Variant = Literal["grid", "exact"]
_TASK_ROUNDING = 0.05  # percent: the released code rounds every task's accuracy to 0.1 before it computes gAcc


@dataclass(frozen=True)
class Inversion:
    """What the two rows say about one method. Bounds hold if nothing but the printed digits was rounded."""

    base: tuple[Interval, ...]  # base accuracy after each session
    novel: tuple[Interval, ...]  # accuracy on all novel classes; base session: 0 to 0, it has none
    gacc_grid: Interval
    gacc_exact: Interval
    matrix: AccuracyMatrix  # the middle of the bounds; the novel sessions share their mean, which gAcc cannot tell


def invert(plan: BenchmarkPlan, aacc: Sequence[PrintedCell], novel: Sequence[PrintedCell]) -> Inversion:
    """`aacc` has one cell per session, `novel` one per session after the first."""
    if len(aacc) != plan.sessions or len(novel) != plan.novel_sessions:
        raise InputError(
            f"{plan.title} has {plan.sessions} sessions; give {plan.sessions} aAcc and "
            f"{plan.novel_sessions} novel cells, not {len(aacc)} and {len(novel)}."
        )
    ratio = plan.ratio
    novels = (Interval.point(0.0), *(cell.interval for cell in novel))
    accuracies = tuple(cell.interval for cell in aacc)
    bases = tuple(
        (a * ((ratio + n) / ratio) - m * (n / ratio)).clip(0.0, 100.0)
        for n, (a, m) in enumerate(zip(accuracies, novels, strict=True))
    )
    grid, exact = (gacc_bounds(plan, accuracies, novels, variant) for variant in ("grid", "exact"))
    return Inversion(bases, novels, grid, exact, _middle_matrix(plan, bases, novels))


def task_rounding(plan: BenchmarkPlan) -> float:
    """How far grid gAcc moves at most when every task's accuracy is rounded to 0.1 percent first."""
    base_slack, novel_slack = task_slacks(plan)
    return fmean(base * base_slack + novel * novel_slack for base, novel in gacc_weights(plan)["grid"])


def task_slacks(plan: BenchmarkPlan) -> tuple[float, float]:
    """The rounding of base and novel task accuracies: none where images divide 1000, as 500 do: steps of 0.2."""
    base = 0.0 if 1000 % plan.base_images == 0 else _TASK_ROUNDING
    return base, 0.0 if all(1000 % images == 0 for images in plan.session_images) else _TASK_ROUNDING


@cache
def inversions() -> dict[tuple[str, str], Inversion]:
    """(dataset, method) -> inversion, for every method with both rows in print."""
    found = {}
    for printed in tables().values():
        if printed.kind == "novel":
            for row in printed.rows:
                aacc = aacc_row(printed.dataset, row.key)
                if aacc is not None:
                    found[printed.dataset, row.key] = invert(datasets()[printed.dataset], aacc, row.sessions)
    return found


def aacc_row(dataset: str, method: str) -> list[PrintedCell] | None:
    """The per-session aAcc cells of a method: from the comparison tables, else the ablations (the ViT baseline)."""
    for kind in ("comparison", "ablation"):
        for printed in tables().values():
            row = printed.row(method)
            if (printed.kind, printed.dataset) == (kind, dataset) and row is not None:
                return row.sessions
    return None


def gacc_bounds(
    plan: BenchmarkPlan, accuracies: Sequence[Interval], novels: Sequence[Interval], variant: Variant
) -> Interval:
    """Bounds of gAcc from aAcc and novel accuracy per session; the novel value of the base session is not used."""
    ratio = plan.ratio
    return mean(
        a * (base * (ratio + n) / ratio) + m * (novel - base * n / ratio)
        for n, (a, m, (base, novel)) in enumerate(zip(accuracies, novels, gacc_weights(plan)[variant], strict=True))
    )


@cache
def gacc_weights(plan: BenchmarkPlan) -> dict[Variant, list[tuple[float, float]]]:
    """Weights of base and novel accuracy in gAcc_i, per session: the metric itself, on unit matrices."""
    units = [
        AccuracyMatrix.from_lists([[base] + [novel] * i for i in range(plan.sessions)], plan.classes)
        for base, novel in ((100.0, 0.0), (0.0, 100.0))
    ]

    def weights(gacc: Callable[[AccuracyMatrix], list[float]]) -> list[tuple[float, float]]:
        return [(base / 100, novel / 100) for base, novel in zip(*map(gacc, units), strict=True)]

    return {"grid": weights(gacc_grid_per_session), "exact": weights(gacc_exact_per_session)}


def _middle_matrix(plan: BenchmarkPlan, bases: Sequence[Interval], novels: Sequence[Interval]) -> AccuracyMatrix:
    rows = [[base.middle] + [novel.middle] * n for n, (base, novel) in enumerate(zip(bases, novels, strict=True))]
    return AccuracyMatrix.from_lists(rows, plan.classes)

"""What must hold within the rows of one method: its means are means, its gAcc follows from its accuracies."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fscil.paper.interval import Interval, mean
from fscil.paper.inversion import aacc_row, gacc_bounds, task_rounding
from fscil.paper.printed import BenchmarkPlan, PrintedCell, PrintedRow, PrintedTable, datasets, tables
from fscil.paper.weighting import mean_offset, mean_slack

Verdict = Literal["agrees", "explained", "contradicts"]
"""agrees: within the rounding of the print. explained: beyond it, but within what the released code does before
printing. contradicts: beyond both."""


@dataclass(frozen=True)
class CompleteRow:
    """Everything printed in one table row, completed by the method's other row where one is needed."""

    plan: BenchmarkPlan
    quoted: bool
    aacc: tuple[PrintedCell, ...]  # per session
    mean: PrintedCell
    gacc: PrintedCell | None = None
    novel: tuple[PrintedCell, ...] = ()  # per session after the first; empty: not printed
    average: PrintedCell | None = None  # of the novel row


@dataclass(frozen=True)
class Check:
    """One printed value beside what the other cells say."""

    column: str  # aacc, avg or gacc
    printed: PrintedCell
    strict: Interval  # if only the print was rounded
    wide: Interval  # with the steps of the released code
    reason: str = ""  # what the wide bounds add

    @property
    def verdict(self) -> Verdict:
        if self.strict.meets(self.printed.interval):
            return "agrees"
        return "explained" if self.wide.meets(self.printed.interval) else "contradicts"


def checks(row: CompleteRow) -> Iterator[Check]:
    """Every value of the row that can be recomputed; an iterator, so that a search may stop at the first misfit."""
    yield _mean_check(row)
    if row.average is not None:
        strict = mean(cell.interval for cell in row.novel)
        yield Check("avg", row.average, strict, strict)
    if row.gacc is not None and row.novel:
        novels = (Interval.point(0.0), *(cell.interval for cell in row.novel))
        strict = gacc_bounds(row.plan, [cell.interval for cell in row.aacc], novels, "grid")
        wide = strict.widen(task_rounding(row.plan))
        yield Check("gacc", row.gacc, strict, wide, "every task's accuracy rounded to 0.1 first")


def printed_rows() -> Iterator[tuple[PrintedTable, PrintedRow, CompleteRow]]:
    """Every row that has a mean to check, in print order."""
    for printed in tables().values():
        if printed.kind in ("comparison", "ablation", "layers", "novel"):
            for row in printed.rows:
                yield printed, row, _complete(printed, row)


def _complete(printed: PrintedTable, row: PrintedRow) -> CompleteRow:
    novel = row if printed.kind == "novel" else _novel_row(printed.dataset, row.key)
    aacc = aacc_row(printed.dataset, row.key) if printed.kind == "novel" else row.sessions
    if aacc is None:
        raise LookupError(f"{row.key} has a novel row but no aAcc row on {printed.dataset}")
    return CompleteRow(
        plan=datasets()[printed.dataset],
        quoted=row.quoted,
        aacc=tuple(aacc),
        mean=row.cells["aacc"],
        gacc=row.cells["gacc"] if row.cells["gacc"].known else None,
        novel=tuple(novel.sessions) if novel else (),
        average=novel.cells["avg"] if novel else None,
    )


def _novel_row(dataset: str, method: str) -> PrintedRow | None:
    found = (t.row(method) for t in tables().values() if (t.kind, t.dataset) == ("novel", dataset))
    return next((row for row in found if row is not None), None)


def _mean_check(row: CompleteRow) -> Check:
    strict = mean(cell.interval for cell in row.aacc)
    if row.quoted:  # not computed by the authors' code
        return Check("aacc", row.mean, strict, strict)
    wide = (strict + mean_offset(row.plan, row.aacc[0].interval, strict, row.gacc)).widen(mean_slack(row.plan))
    reason = "every task's accuracy rounded to 0.1 first"
    if not row.plan.balanced:
        reason = "the mean weighs classes, the sessions pool test images"
    return Check("aacc", row.mean, strict, wide, reason)

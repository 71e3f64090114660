"""The likely slip: a change to one printed cell after which everything printed about the row fits together."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from fscil.paper.checks import Check, CompleteRow, checks
from fscil.paper.printed import PrintedCell


@dataclass(frozen=True)
class Slip:
    """One cell that would resolve all contradictions of its row if it read otherwise."""

    column: str  # task 2, novel task 4, aacc, avg or gacc
    printed: str
    instead: str
    digits: int  # how many digits differ; two neighbours swapped count as one


@cache
def find_slips(row: CompleteRow) -> tuple[Slip, ...]:
    """The best single-digit change of each cell that has one; without any, the best change of a whole cell."""
    best: dict[str, tuple[tuple[int, float], Slip]] = {}
    for column, cell, changed in _single_cells(row):
        for text in _one_digit_off(cell.text):
            _keep_best(best, row, column, cell, text, changed(PrintedCell(text)), digits=1)
    if not best:
        for column, cell, changed in _single_cells(row):
            for text in _any_value(row, column, cell):
                digits = sum(a != b for a, b in zip(text.rjust(6), cell.text.rjust(6), strict=True))
                _keep_best(best, row, column, cell, text, changed(PrintedCell(text)), digits)
    return tuple(slip for _, slip in best.values())


class _Replacement:
    """The row with one of its cells replaced."""

    def __init__(self, row: CompleteRow, field: str, index: int | None = None) -> None:
        self.row, self.field, self.index = row, field, index

    def __call__(self, cell: PrintedCell) -> CompleteRow:
        if self.index is None:
            return replace(self.row, **{self.field: cell})  # type: ignore[arg-type]
        cells = list(getattr(self.row, self.field))
        cells[self.index] = cell
        return replace(self.row, **{self.field: tuple(cells)})  # type: ignore[arg-type]


def _single_cells(row: CompleteRow) -> Iterator[tuple[str, PrintedCell, _Replacement]]:
    """The cells that take part in a failing check."""
    failing = {check.column for check in checks(row) if check.verdict == "contradicts"}
    if failing & {"aacc", "gacc"}:
        yield from ((f"task {i + 1}", cell, _Replacement(row, "aacc", i)) for i, cell in enumerate(row.aacc))
    if failing & {"avg", "gacc"}:
        yield from ((f"novel task {i + 2}", cell, _Replacement(row, "novel", i)) for i, cell in enumerate(row.novel))
    for column, field in (("aacc", "mean"), ("avg", "average"), ("gacc", "gacc")):
        if column in failing:
            yield column, getattr(row, field), _Replacement(row, field)


def _keep_best(
    best: dict[str, tuple[tuple[int, float], Slip]],
    row: CompleteRow,
    column: str,
    cell: PrintedCell,
    text: str,
    changed: CompleteRow,
    digits: int,
) -> None:
    if text == cell.text or not _smoother(row, changed, column):
        return
    if any(check.verdict == "contradicts" for check in checks(changed)):
        return
    rank = (digits, sum(_misfit(check) for check in checks(changed)))
    if column not in best or rank < best[column][0]:
        best[column] = rank, Slip(column, cell.text, text, digits)


def _misfit(check: Check) -> float:
    centre = check.strict.middle if check.verdict == "agrees" else check.wide.middle
    return abs(check.printed.value - centre)


def _smoother(row: CompleteRow, changed: CompleteRow, column: str) -> bool:
    """A slip in a session cell makes its row jump: putting it right leaves the row falling, and more evenly."""
    if not column.startswith("task"):
        return True
    i = int(column.split()[1]) - 1
    before, after = ([cell.value for cell in version.aacc] for version in (row, changed))
    falls = all(after[j] >= after[j + 1] for j in (i - 1, i) if 0 <= j < len(after) - 1)
    return falls and _roughness(after) < _roughness(before)


def _roughness(values: list[float]) -> float:
    return sum(abs(values[i - 1] - 2 * values[i] + values[i + 1]) for i in range(1, len(values) - 1))


def _one_digit_off(text: str) -> Iterator[str]:
    places = [i for i, char in enumerate(text) if char.isdigit()]
    for i in places:
        yield from (text[:i] + digit + text[i + 1 :] for digit in "0123456789")
    for i, j in pairwise(places):
        yield text[:i] + text[j] + text[i + 1 : j] + text[i] + text[j + 1 :]


def _any_value(row: CompleteRow, column: str, cell: PrintedCell) -> Iterator[str]:
    """Every value of a session cell in printed steps; for a mean or gAcc, what the other cells say."""
    if column.startswith(("task", "novel")):
        yield from (f"{step / 10:.1f}" for step in range(1001))
        return
    for check in checks(row):
        if check.column == column:
            for interval in (check.strict, check.wide):
                yield f"{interval.middle:.{cell.digits}f}"

"""The comparison: per method the mean and spread over draws, and the paired difference to the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from fscil.core.errors import InputError, nearest
from fscil.metrics import base_acc_per_session, novel_acc_per_session
from fscil.results.result import Result, check_comparable

NOISE = 2.0  # standard errors: a smaller difference may be chance
_TINY = 1e-9  # percent: rounding of floats
USUAL_BASELINE = "prototypes"  # the frozen network with class means: what every method here starts from


@dataclass(frozen=True)
class Column:
    """One quantity of the comparison."""

    key: str
    label: str
    meaning: str
    group: str
    unit: str = "%"
    higher_is_better: bool = True


_START, _END = "After base training", "After the last session"
_MEAN, _CHANGE, _COST = "Mean over the sessions", "From when a class was learned to the end", "Cost"
HEADLINE = "gacc_grid"

COLUMNS = (
    Column("base_first", "Base session", "base classes, before anything new is learned", _START),
    Column("base_last", "Base classes", "of their test images, named correctly", _END),
    Column("novel_last", "New classes", "of their test images, named correctly", _END),
    Column("lacc", "lAcc", "all classes together", _END),
    Column(HEADLINE, "gAcc, grid", "balance of old and new, as published: the headline", _MEAN),
    Column("gacc_exact", "gAcc, exact", "the same as a true integral", _MEAN),
    Column("aacc", "aAcc", "all classes seen so far", _MEAN),
    Column("base", "Base", "base classes", _MEAN),
    Column("novel", "Novel", "new classes seen so far", _MEAN),
    Column("hacc", "hAcc", "harmonic mean of base and novel", _MEAN),
    Column("tacc", "tAcc", "every session weighs the same", _MEAN),
    Column("pd", "PD", "points gained or, if negative, lost", _CHANGE, "points"),
    Column("rpd", "RPD", "the same in percent of the start", _CHANGE),
    Column("kr", "KR", "share kept; 100 is everything", _CHANGE),
    Column("forgetting", "F", "widest swing; lower is better", _CHANGE, "points", False),
    Column("seconds_base", "Base training", "once per network", _COST, "s", False),
    Column("seconds_sessions", "All sessions", "learning and testing", _COST, "s", False),
    Column("peak_memory_mb", "Peak memory", "", _COST, "MB", False),
)


@dataclass(frozen=True)
class Spread:
    """Mean over draws; the standard deviation (n - 1) needs two of them."""

    mean: float
    std: float | None
    draws: int


@dataclass(frozen=True)
class Difference:
    """Mean of method minus baseline over the draws both have, with its standard error."""

    mean: float
    error: float | None
    draws: int

    @property
    def judged(self) -> bool:
        """Whether chance can be told from effect. Not on one draw, and not where every draw shows the same difference:
        what the draws leave untouched (such as the base session of one trained network) they cannot judge.
        """
        return self.error is not None and (self.error > _TINY or abs(self.mean) <= _TINY)

    @property
    def clear(self) -> bool:
        """Beyond twice the standard error."""
        return self.judged and abs(self.mean) > NOISE * (self.error or 0.0) + _TINY


@dataclass(frozen=True)
class Row:
    """One method. A cell is None where the metric does not exist (no new classes, no measured cost)."""

    method: str
    title: str
    draws: int
    cells: Mapping[str, Spread | None]
    differences: Mapping[str, Difference]  # to the baseline, where draws are shared; empty for the baseline


@dataclass(frozen=True)
class ComparisonTable:
    """Rows in the order given, the baseline first."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    baseline: str | None  # None with a single method

    def row(self, method: str) -> Row:
        return next(row for row in self.rows if row.method == method)

    def best(self, column: Column) -> frozenset[str]:
        """Methods with the best mean as printed; none where all are equal or there is nothing to compare."""
        means = {row.method: round(cell.mean, 2) for row in self.rows if (cell := row.cells[column.key])}
        if len(set(means.values())) < 2:
            return frozenset()
        top = (max if column.higher_is_better else min)(means.values())
        return frozenset(method for method, mean in means.items() if mean == top)


def comparison_table(results: Sequence[Result], baseline: str | None = None) -> ComparisonTable:
    """Compare methods; `baseline` defaults to the plain network where it is among them, else the first method."""
    if not results:
        raise InputError("There is no result to compare; give at least one.")
    check_comparable(results)
    groups = by_method(results)
    if baseline is not None and baseline not in groups:
        raise InputError(f"The baseline '{baseline}' is not among the results; {nearest(baseline, groups)}")
    if baseline is None and len(groups) > 1:
        baseline = USUAL_BASELINE if USUAL_BASELINE in groups else next(iter(groups))
    titles = _titles(groups)
    order = sorted(groups, key=lambda method: method != baseline)  # stable: only the baseline moves
    rows = tuple(
        _row(titles[method], groups[method], groups[baseline] if baseline and method != baseline else [])
        for method in order
    )
    return ComparisonTable(COLUMNS, rows, baseline if len(rows) > 1 else None)


def by_method(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results of each method, in the order given."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.method, []).append(result)
    return groups


def spread(values: Sequence[float]) -> Spread:
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def quantities(result: Result) -> dict[str, float | None]:
    """The value of every column in one run."""
    extra: dict[str, float | None] = {
        "base_first": base_acc_per_session(result.matrix)[0],
        "base_last": base_acc_per_session(result.matrix)[-1],
        "novel_last": novel_acc_per_session(result.matrix)[-1],
        "seconds_base": result.seconds.get("base"),
        "seconds_sessions": result.seconds.get("sessions"),
        "peak_memory_mb": result.peak_memory_mb,
    }
    return {column.key: extra.get(column.key, result.metrics.get(column.key)) for column in COLUMNS}


def _row(title: str, results: list[Result], baseline: list[Result]) -> Row:
    ours = {result.draw: quantities(result) for result in results}
    theirs = {result.draw: quantities(result) for result in baseline}
    cells: dict[str, Spread | None] = {}
    differences = {}
    for column in COLUMNS:
        values = [value for run in ours.values() if (value := run[column.key]) is not None]
        cells[column.key] = spread(values) if values else None
        pairs = [(run[column.key], theirs[draw][column.key]) for draw, run in ours.items() if draw in theirs]
        gaps = [a - b for a, b in pairs if a is not None and b is not None]
        if gaps:
            gap = spread(gaps)
            error = None if gap.std is None else gap.std / sqrt(gap.draws)
            differences[column.key] = Difference(gap.mean, error, gap.draws)
    return Row(results[0].method, title, len(results), cells, differences)


def _titles(groups: Mapping[str, list[Result]]) -> dict[str, str]:
    titles = {method: results[0].title for method, results in groups.items()}
    shared = {title for title in titles.values() if list(titles.values()).count(title) > 1}
    return {method: f"{title} ({method})" if title in shared else title for method, title in titles.items()}

"""Methods side by side: mean and spread over draws, and the paired difference to a baseline, judged by one rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fscil.core.errors import InputError, nearest
from fscil.metrics.names import HEADLINE, METRICS
from fscil.results.result import SCALARS, Result, check_comparable
from fscil.results.significance import Difference, Spread, compare, spread

USUAL_BASELINE = "prototypes"  # the frozen network with class means: what every method here starts from


@dataclass(frozen=True)
class MethodRow:
    """One method. A cell is None where the quantity does not exist (no new classes, no measured cost)."""

    method: str
    title: str
    results: tuple[Result, ...]  # one per draw
    cells: Mapping[str, Spread | None]
    differences: Mapping[str, Difference]  # to the baseline, where draws are shared; empty for the baseline

    @property
    def draws(self) -> int:
        return len(self.results)

    def mean(self, key: str) -> float:
        cell = self.cells[key]
        return float("nan") if cell is None else cell.mean


@dataclass(frozen=True)
class Comparison:
    """Rows in the order given, the baseline first."""

    rows: tuple[MethodRow, ...]
    baseline: str | None  # None with a single method

    def row(self, method: str) -> MethodRow:
        return next(row for row in self.rows if row.method == method)

    @property
    def reference(self) -> MethodRow | None:
        return self.row(self.baseline) if self.baseline else None

    @property
    def results(self) -> list[Result]:
        return [result for row in self.rows for result in row.results]

    @property
    def repeated(self) -> bool:
        """Whether any method has more than one draw."""
        return any(row.draws > 1 for row in self.rows)

    def best(self, key: str, left_out: Sequence[str] = ()) -> frozenset[str]:
        """Methods with the best mean as printed; none where all are equal or there is nothing to compare."""
        means = {
            row.method: round(cell.mean, METRICS[key].digits)
            for row in self.rows
            if row.method not in left_out and (cell := row.cells[key])
        }
        if len(set(means.values())) < 2:
            return frozenset()
        top = (max if METRICS[key].higher_is_better else min)(means.values())
        return frozenset(method for method, mean in means.items() if mean == top)

    def ranking(self, key: str = HEADLINE) -> list[MethodRow]:
        """From best to worst mean; ties in the order of the rows."""
        sign = -1 if METRICS[key].higher_is_better else 1
        return sorted(self.rows, key=lambda row: sign * round(row.mean(key), 6))


def compare_methods(results: Sequence[Result], baseline: str | None = None) -> Comparison:
    """`baseline` defaults to the plain network where it is among the methods, else to the first method."""
    if not results:
        raise InputError("There is no result to compare; give at least one.")
    check_comparable(results)
    groups = by_method(results)
    if baseline is not None and baseline not in groups:
        raise InputError(f"The baseline '{baseline}' is not among the results; {nearest(baseline, groups)}")
    if baseline is None and len(groups) > 1:
        baseline = USUAL_BASELINE if USUAL_BASELINE in groups else next(iter(groups))
    values = {
        key: {
            method: {result.draw: value for result in found if (value := result.quantity(key)) is not None}
            for method, found in groups.items()
        }
        for key in SCALARS
    }
    families = {key: compare(values[key], baseline) if baseline else {} for key in SCALARS}
    titles = _titles(groups)
    rows = tuple(
        MethodRow(
            method,
            titles[method],
            tuple(groups[method]),
            {key: spread(list(found.values())) if (found := values[key][method]) else None for key in SCALARS},
            {key: family[method] for key, family in families.items() if method in family},
        )
        for method in sorted(groups, key=lambda method: method != baseline)  # stable: only the baseline moves
    )
    return Comparison(rows, baseline if len(rows) > 1 else None)


def by_method(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results of each method, in the order given."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.method, []).append(result)
    return groups


def _titles(groups: Mapping[str, list[Result]]) -> dict[str, str]:
    titles = {method: results[0].title for method, results in groups.items()}
    shared = {title for title in titles.values() if list(titles.values()).count(title) > 1}
    return {method: f"{title} ({method})" if title in shared else title for method, title in titles.items()}

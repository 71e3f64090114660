"""One method on one data set, from the paper or from a user's results, ready to be tabulated and drawn."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fscil import metrics
from fscil.core.errors import InputError, nearest
from fscil.core.matrix import AccuracyMatrix
from fscil.paper.inversion import inversions
from fscil.paper.printed import BenchmarkPlan, corner_matrix, method_title, tables
from fscil.results.grouping import dataset_key, group_draws, settings
from fscil.results.result import Result
from fscil.results.significance import Spread, spread


@dataclass(frozen=True)
class Series:
    """A method's matrices: one from the paper, one per draw from a user. Arrays have a row per draw."""

    key: str
    title: str
    dataset: str
    matrices: tuple[AccuracyMatrix, ...]
    yours: bool = False

    @property
    def classes(self) -> tuple[int, ...]:
        return self.matrices[0].classes

    @property
    def label(self) -> str:
        draws = f", {len(self.matrices)} draws" if len(self.matrices) > 1 else ""
        return f"{self.title} (yours{draws})" if self.yours else self.title

    @cached_property
    def aacc(self) -> Spread:
        return spread([metrics.aacc(matrix) for matrix in self.matrices])

    @cached_property
    def gacc(self) -> Spread:
        return spread([metrics.gacc_grid(matrix) for matrix in self.matrices])

    def aacc_per_session(self) -> np.ndarray:
        return self._per_draw(metrics.aacc_per_session)

    def gacc_per_session(self) -> np.ndarray:
        return self._per_draw(metrics.gacc_grid_per_session)

    def novel_per_session(self) -> np.ndarray:
        """From the first incremental session on."""
        return self._per_draw(lambda matrix: metrics.novel_acc_per_session(matrix)[1:])

    def last_row(self) -> np.ndarray:
        """Accuracy on every task after the last session."""
        return self._per_draw(lambda matrix: matrix.values[-1])

    def curve(self) -> tuple[list[float], np.ndarray]:
        """alpha and gAcc(alpha) on the published grid, whose area is the grid gAcc."""
        steps = metrics.grid_steps(self.classes)
        if steps is None:
            raise InputError(f"{self.title} has a base session only; gAcc needs at least one novel session.")
        alphas = [k / steps for k in range(steps + 1)]
        return alphas, self._per_draw(lambda matrix: metrics.gacc_curve(matrix, alphas, at_zero="published"))

    def _per_draw(self, metric: Callable[[AccuracyMatrix], Sequence[float | None] | np.ndarray]) -> np.ndarray:
        return np.array([metric(matrix) for matrix in self.matrices], dtype=float)


def published(dataset: str, methods: Sequence[str] = ()) -> list[Series]:
    """The methods whose accuracies follow from print, in the order of the paper; `methods` picks and orders."""
    found = {
        method: Series(method, method_title(method), data, (inversion.matrix,))
        for (data, method), inversion in inversions().items()
        if data == dataset
    }
    for method in methods:
        if method not in found:
            raise InputError(f"The paper has no novel-class row for '{method}' there; {nearest(method, found)}")
    return [found[method] for method in methods] if methods else list(found.values())


def corner_cases() -> list[Series]:
    corners = (table for table in tables().values() if table.kind == "corner")
    return [Series(table.name, method_title(table.name), table.dataset, (corner_matrix(table),)) for table in corners]


def as_series(results: Iterable[Result]) -> list[Series]:
    """Draws of one method with the same settings become one series; other settings are another series."""
    groups = group_draws(results)
    series = []
    for group in groups:
        first = group[0]
        rivals = [other[0] for other in groups if (other[0].method, other[0].dataset) == (first.method, first.dataset)]
        suffix = _differing(first, rivals)
        matrices = tuple(result.matrix for result in group)
        series.append(Series(f"{first.method}{suffix}", f"{first.title}{suffix}", first.dataset, matrices, yours=True))
    return series


def comparable(series: Sequence[Series], plan: BenchmarkPlan, *, any_dataset: bool = False) -> list[Series]:
    """The same series, if they may stand beside published numbers of that data set."""
    for entry in series:
        if entry.classes != plan.classes:
            raise InputError(
                f"{entry.title} has classes {_counts(entry.classes)}, {plan.title} has {_counts(plan.classes)}; "
                f"such rows do not fit into one table."
            )
        if dataset_key(entry.dataset) != plan.key and not any_dataset:
            raise InputError(
                f"{entry.title} was measured on {entry.dataset}, this is {plan.title}: the numbers are not "
                f"comparable; choose a table or figure of its data set, or add --any-dataset to see them side by side."
            )
    return list(series)


def _counts(classes: tuple[int, ...]) -> str:
    if len(classes) > 2 and len(set(classes[1:])) == 1:
        return f"{classes[0]} + {len(classes) - 1} x {classes[1]}"
    return " + ".join(map(str, classes))


def _differing(result: Result, rivals: Sequence[Result]) -> str:
    """What tells a method's series apart, as part of its name: their recipes, else the settings that differ."""
    recipes = [_recipe(rival) for rival in rivals]
    if len(rivals) > 1 and all(recipes) and len(set(recipes)) == len(recipes):
        return f" ({_recipe(result)})"
    own, theirs = _named_settings(result), [_named_settings(rival) for rival in rivals]
    parts = []
    for name in sorted({name for each in theirs for name in each}):
        if len({each.get(name) for each in theirs}) > 1:
            value = own.get(name, "unset")
            shown = f"{value:g}" if isinstance(value, float) else value
            parts.append(f"{name.split('.')[-1]} {shown}")
    return f" ({', '.join(parts)})" if parts else ""


def _named_settings(result: Result) -> dict[str, str | float]:
    return {"recipe": _recipe(result) or "unset", **settings(result)}


def _recipe(result: Result) -> str:
    return result.recipe or str(result.config.get("recipe") or "")

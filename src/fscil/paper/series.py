"""One method on one data set, from the paper or from a user's runs, ready to be tabulated and drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from fscil.core.errors import InputError, nearest
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import (
    aacc,
    aacc_per_session,
    gacc_curve,
    gacc_grid,
    gacc_grid_per_session,
    grid_steps,
    novel_acc_per_session,
)
from fscil.paper.inversion import inversions
from fscil.paper.printed import corner_matrix, method_title, tables


@dataclass(frozen=True)
class Series:
    """A method's matrices: one from the paper, one per draw from a user."""

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

    def aacc_per_session(self) -> list[float]:
        return self._mean(aacc_per_session)

    def gacc_per_session(self) -> list[float]:
        return self._mean(gacc_grid_per_session)

    def novel_per_session(self) -> list[float]:
        """From the first incremental session on."""
        return self._mean(lambda matrix: [value for value in novel_acc_per_session(matrix) if value is not None])

    def base_per_session(self) -> list[float]:
        return self._mean(lambda matrix: [float(value) for value in matrix.values[:, 0]])

    def last_row(self) -> list[float]:
        """Accuracy on every task after the last session."""
        return self._mean(lambda matrix: [float(value) for value in matrix.values[-1]])

    def curve(self) -> tuple[list[float], list[float]]:
        """alpha and gAcc(alpha) on the published grid, whose area is the grid gAcc."""
        steps = grid_steps(self.classes)
        if steps is None:
            raise InputError(f"{self.title} has a base session only; gAcc needs at least one novel session.")
        alphas = [k / steps for k in range(steps + 1)]
        return alphas, self._mean(lambda matrix: gacc_curve(matrix, alphas, at_zero="published"))

    def aacc(self) -> tuple[float, float | None]:
        return _mean_and_spread([aacc(matrix) for matrix in self.matrices])

    def gacc(self) -> tuple[float, float | None]:
        return _mean_and_spread([gacc_grid(matrix) for matrix in self.matrices])

    def _mean(self, metric: Callable[[AccuracyMatrix], list[float]]) -> list[float]:
        return [fmean(values) for values in zip(*map(metric, self.matrices), strict=True)]


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


def _mean_and_spread(values: list[float]) -> tuple[float, float | None]:
    return fmean(values), stdev(values) if len(values) > 1 else None

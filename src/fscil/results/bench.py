"""The bench as one document (bench.json): the accuracy matrices of every method and draw, and what they cost.

All scores are computed from the matrices, never stored beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fscil.core.config import build, to_dict
from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.core.storage import read_json
from fscil.metrics import Summary, gacc_curve, summary
from fscil.results.comparison import Spread, spread

SCHEMA, KIND = 1, "bench"
HEADLINE = "gacc_grid"
SCORES = {
    "gacc_grid": "gAcc, grid",
    "gacc_exact": "gAcc, exact",
    "aacc": "aAcc",
    "lacc": "Last",
    "base": "Base",
    "novel": "Novel",
    "hacc": "hAcc",
}
ALPHAS = tuple(k / 40 for k in range(41))


@dataclass(frozen=True)
class Draw:
    """One method on one draw of the shots."""

    shots_seed: int
    matrix: tuple[tuple[float, ...], ...]
    seconds: float  # learning and testing all sessions, without the features
    memory_mb: float  # peak while learning


@dataclass(frozen=True)
class Row:
    """One method."""

    method: str
    title: str
    paper: str
    year: int  # 0 where the paper names none
    recipe: str
    network: str  # key
    kept: int  # numbers that the method keeps beside the network after the last session
    draws: tuple[Draw, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    differences: str = ""  # known ones, from the paper


@dataclass(frozen=True)
class Network:
    """One base training."""

    key: str
    recipe: str  # one of those that ask for it
    kind: str
    objective: str
    epochs: int
    seconds: float
    parameters: int
    class_means: tuple[tuple[tuple[float, ...], ...], ...]  # matrices of the prototype baseline on it, one per draw


@dataclass(frozen=True)
class Bench:
    dataset: str
    recipe: str  # the default one
    classes: tuple[int, ...]
    test_counts: tuple[int, ...]
    shot: int
    same_backbone: bool
    baseline: str
    floor: str
    rows: tuple[Row, ...]
    networks: tuple[Network, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # method -> why
    hardware: Mapping[str, Any] = field(default_factory=dict)
    commit: str = ""
    schema: int = SCHEMA
    kind: str = KIND

    @cached_property
    def _summaries(self) -> dict[str, list[Summary]]:
        return {row.method: [summary(self._matrix(draw.matrix)) for draw in row.draws] for row in self.rows}

    def row(self, method: str) -> Row | None:
        return next((row for row in self.rows if row.method == method), None)

    def network(self, row: Row) -> Network:
        return next(network for network in self.networks if network.key == row.network)

    def values(self, method: str, key: str) -> dict[int, float]:
        """A score on every draw, by the seed of its shots; without those where it does not exist."""
        row = self.row(method)
        if row is None:
            return {}
        pairs = zip(row.draws, self._summaries[method], strict=True)
        found = {draw.shots_seed: dict(scores)[key] for draw, scores in pairs}
        return {seed: float(value) for seed, value in found.items() if isinstance(value, int | float)}

    def spread(self, method: str, key: str) -> Spread | None:
        values = list(self.values(method, key).values())
        return spread(values) if values else None

    def mean(self, method: str, key: str) -> float:
        found = self.spread(method, key)
        return float("nan") if found is None else found.mean

    def class_means(self, row: Row) -> Spread | None:
        """gAcc (grid) of plain class means on this method's own network."""
        matrices = self.network(row).class_means
        return spread([summary(self._matrix(each))["gacc_grid"] for each in matrices]) if matrices else None

    def curves(self, row: Row) -> list[list[float]]:
        """gAcc(alpha) at ALPHAS, one list per draw."""
        return [gacc_curve(self._matrix(draw.matrix), ALPHAS) for draw in row.draws]

    def ranking(self, key: str) -> list[str]:
        """Methods from best to worst mean; ties in the order of the rows."""
        return sorted((row.method for row in self.rows), key=lambda method: -round(self.mean(method, key), 6))

    def title(self, method: str) -> str:
        row = self.row(method)
        return row.title if row else method

    def _matrix(self, rows: Sequence[Sequence[float]]) -> AccuracyMatrix:
        return AccuracyMatrix.from_lists(rows, self.classes, self.test_counts)


def to_json(bench: Bench) -> dict[str, Any]:
    """With the scores per draw beside the matrices, for readers of the file; `parse` does not look at them."""
    scores = {row.method: {key: list(bench.values(row.method, key).values()) for key in SCORES} for row in bench.rows}
    return {**to_dict(bench), "scores": scores}


def parse(document: Any, source: str = "the file") -> Bench:
    if not isinstance(document, Mapping) or document.get("kind") != KIND:
        raise InputError(f"{source} is not a bench; give a bench.json that `fscil bench` wrote.")
    if document.get("schema") != SCHEMA:
        raise InputError(f"{source} has schema {document.get('schema')!r}, this version reads schema {SCHEMA}.")
    try:
        return build(Bench, {key: value for key, value in document.items() if key not in ("scores", "comparisons")})
    except (TypeError, InputError) as error:
        raise InputError(f"{source} is not a complete bench ({error}); run `fscil bench` again.") from None


def load(path: Path) -> Bench:
    return parse(read_json(path), str(path))

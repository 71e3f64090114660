"""A bench as one document (bench.json): the accuracy matrices of every method and draw, and what they cost.

All scores are computed from the matrices, never stored beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fscil.core.config import build, to_dict
from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.core.pretraining import NONE
from fscil.core.storage import read_json
from fscil.metrics import gacc_grid, summary
from fscil.results.comparison import Comparison, compare_methods
from fscil.results.result import Result
from fscil.results.significance import Spread, spread

SCHEMA, KIND = 1, "bench"
SCORES = ("gacc_grid", "gacc_exact", "aacc", "lacc", "base", "novel", "hacc")

Rows = tuple[tuple[float, ...], ...]  # of an accuracy matrix


@dataclass(frozen=True)
class BenchDraw:
    """One method on one draw of the shots."""

    shots_seed: int
    matrix: Rows
    seconds: float  # learning and testing all sessions, without the features
    memory_mb: float  # peak while learning


@dataclass(frozen=True)
class BenchMethod:
    """One method."""

    method: str
    title: str
    paper: str
    year: int  # 0 where the paper names none
    recipe: str
    network: str  # key
    kept: int  # numbers that the method keeps beside the network after the last session
    draws: tuple[BenchDraw, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    differences: str = ""  # known ones, from the paper


@dataclass(frozen=True)
class BenchNetwork:
    """One base training."""

    key: str
    recipe: str  # one of those that ask for it
    kind: str
    objective: str
    epochs: int
    seconds: float
    parameters: int
    class_means: tuple[Rows, ...]  # matrices of the prototype baseline on it, one per draw
    pretraining: str = NONE  # what it had learned before


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
    rows: tuple[BenchMethod, ...]
    networks: tuple[BenchNetwork, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # method -> why
    hardware: Mapping[str, Any] = field(default_factory=dict)
    commit: str = ""
    schema: int = SCHEMA
    kind: str = KIND

    @cached_property
    def comparison(self) -> Comparison:
        """The methods side by side, against the baseline where that was measured."""
        results = [
            Result(
                method=row.method,
                title=row.title,
                dataset=self.dataset,
                seed=0,
                shots_seed=draw.shots_seed,
                matrix=(matrix := self.matrix(draw.matrix)),
                metrics=dict(summary(matrix)),
                seconds={"sessions": draw.seconds, "base": self.network(row.method).seconds},
                peak_memory_mb=draw.memory_mb,
            )
            for row in self.rows
            for draw in row.draws
        ]
        return compare_methods(results, self.baseline if self.entry(self.baseline) else None)

    def entry(self, method: str) -> BenchMethod | None:
        return next((row for row in self.rows if row.method == method), None)

    def network(self, method: str) -> BenchNetwork:
        row = self.entry(method)
        return next(network for network in self.networks if row and network.key == row.network)

    def class_means(self, method: str) -> Spread | None:
        """gAcc (grid) of plain class means on this method's own network."""
        matrices = self.network(method).class_means
        return spread([gacc_grid(self.matrix(rows)) for rows in matrices]) if matrices else None

    def matrix(self, rows: Rows) -> AccuracyMatrix:
        return AccuracyMatrix.from_lists(rows, self.classes, self.test_counts)

    def title(self, method: str) -> str:
        row = self.entry(method)
        return row.title if row else method

    def to_json(self) -> dict[str, Any]:
        """With the scores per draw beside the matrices, for readers of the file; `parse_bench` ignores them."""
        scores = {
            row.method: {key: [v for r in row.results if (v := r.quantity(key)) is not None] for key in SCORES}
            for row in self.comparison.rows
        }
        return {**to_dict(self), "scores": scores}


def parse_bench(document: Any, source: str = "the file") -> Bench:
    if not isinstance(document, Mapping) or document.get("kind") != KIND:
        raise InputError(f"{source} is not a bench; give a bench.json that `fscil bench` wrote.")
    if document.get("schema") != SCHEMA:
        raise InputError(f"{source} has schema {document.get('schema')!r:.40}, this version reads schema {SCHEMA}.")
    try:
        found = build(Bench, {key: value for key, value in document.items() if key not in ("scores", "comparisons")})
        _ = found.comparison, [found.class_means(row.method) for row in found.rows]  # every matrix, every network
        return found
    except (TypeError, ValueError, OverflowError, StopIteration, InputError) as error:
        raise InputError(f"{source} is not a complete bench ({error!s:.200}); run `fscil bench` again.") from None


def load_bench(path: Path) -> Bench:
    return parse_bench(read_json(path), str(path))

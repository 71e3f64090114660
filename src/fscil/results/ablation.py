"""ablation.json: everything that one ablation measured, a value per draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fscil.core.config import build, to_dict
from fscil.core.errors import InputError
from fscil.core.storage import read_json
from fscil.results.comparison import Spread, spread

SCHEMA, KIND = 1, "ablation"
SCORES = {
    "gacc_grid": "gAcc, grid",
    "gacc_exact": "gAcc, exact",
    "aacc": "aAcc",
    "base": "Base",
    "novel": "Novel",
    "lacc": "Last",
}
GROUPS = {"all": "all test images", "base": "images of base classes", "novel": "images of new classes"}
QUALITY = {
    "ece_mass": "ECE, equal mass",
    "ece_width": "ECE, equal width",
    "nll": "NLL",
    "brier": "Brier",
    "accuracy": "Accuracy",
    "confidence": "Confidence",
}
MOMENTS = ("before", "after")  # the temperature is applied
Values = Mapping[str, Sequence[float]]  # per key, one value per draw


@dataclass(frozen=True)
class Line:
    """A row of a table: what was measured, over the draws."""

    key: str
    label: str
    scores: Values
    kind: str = ""  # layer table: raw, rectified, raw ensemble or ensemble
    block: int = 0  # layer table: 0 where it is not of one block
    options: Mapping[str, Any] = field(default_factory=dict)  # what differs from the recipe

    def spread(self, key: str) -> Spread:
        return spread(self.scores[key])


@dataclass(frozen=True)
class Point:
    """One value of a beta."""

    factor: float  # times the recipe's value
    scores: Values

    def spread(self, key: str) -> Spread:
        return spread(self.scores[key])


@dataclass(frozen=True)
class Curve:
    """The sensitivity to one beta; without points where the recipe has it at 0."""

    key: str
    label: str
    about: str
    weights: Mapping[str, float]  # the recipe's values
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Predictor:
    """How far the confidence of one way to predict can be believed, after the last session."""

    key: str
    label: str
    temperatures: Values  # fitted on left_out shots (the one that is used); base_training and test for reference
    before: Mapping[str, Values]  # group -> quality
    after: Mapping[str, Values]
    bins: Mapping[str, Mapping[str, Any]]  # moment -> group -> [confidence, accuracy, share] per bin, mean over draws

    def spread(self, moment: str, group: str, key: str) -> Spread:
        return spread((self.before if moment == "before" else self.after)[group][key])


@dataclass(frozen=True)
class Cost:
    """What one step of inference costs per image."""

    key: str
    label: str
    microseconds: float
    mflops: float
    parameters: int


@dataclass(frozen=True)
class Ablation:
    """A part that was not asked for is empty."""

    recipe: str
    dataset: str
    draws: int
    seconds: float  # of all measurements together
    network: str  # sha256 of the checkpoint
    hardware: Mapping[str, Any]
    options: Mapping[str, Any]  # of YourSelf, resolved
    config: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[int, ...] = ()
    commit: str = ""
    steps: tuple[Line, ...] = ()
    layers: tuple[Line, ...] = ()
    curves: tuple[Curve, ...] = ()
    predictors: tuple[Predictor, ...] = ()
    costs: tuple[Cost, ...] = ()
    batch: int = 0  # images in a batch when the cost was measured
    schema: int = SCHEMA
    kind: str = KIND

    def step(self, key: str) -> Line | None:
        return next((line for line in self.steps if line.key == key), None)


def to_json(ablation: Ablation) -> dict[str, Any]:
    return to_dict(ablation)


def is_ablation(document: Any) -> bool:
    return isinstance(document, Mapping) and document.get("kind") == KIND


def parse(document: Any, source: str = "the file") -> Ablation:
    if not is_ablation(document):
        raise InputError(f"{source} is not an ablation; give an ablation.json that `fscil ablate` wrote.")
    if document.get("schema") != SCHEMA:
        raise InputError(f"{source} has schema {document.get('schema')!r}, this version reads schema {SCHEMA}.")
    try:
        return build(Ablation, document)
    except (TypeError, InputError) as error:
        raise InputError(f"{source} is not a complete ablation ({error}); run `fscil ablate` again.") from None


def load(path: Path) -> Ablation:
    return parse(read_json(path), str(path))

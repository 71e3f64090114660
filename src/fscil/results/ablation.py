"""ablation.json: everything that one ablation measured, a value per draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fscil.core.config import build, to_dict
from fscil.core.errors import InputError
from fscil.core.storage import read_json
from fscil.metrics.names import HEADLINE
from fscil.results.significance import Difference, Spread, corrected, paired, spread

SCHEMA, KIND = 1, "ablation"
SCORES = ("gacc_grid", "gacc_exact", "aacc", "base", "novel", "lacc")
GROUPS = {"all": "all test images", "base": "images of base classes", "novel": "images of new classes"}
QUALITY = ("ece_mass", "ece_width", "nll", "brier", "accuracy", "confidence")
TEMPERATURES = ("left_out", "base_training", "test")  # by what they are fitted on
MOMENTS = ("before", "after")  # the temperature is applied
Values = Mapping[str, Sequence[float]]  # per key, one value per draw


@dataclass(frozen=True)
class AblationRow:
    """A row of a table: what was measured, over the draws."""

    key: str
    label: str
    scores: Values
    kind: str = ""  # layer table: raw, rectified, raw ensemble or ensemble; step that no later one adds to: beside
    block: int = 0  # layer table: 0 where it is not of one block
    options: Mapping[str, Any] = field(default_factory=dict)  # what differs from the recipe
    over: str = ""  # step: key of the one it adds to; empty: the one above

    def spread(self, key: str) -> Spread:
        return spread(self.scores[key])


@dataclass(frozen=True)
class SensitivityPoint:
    """One value of a beta."""

    factor: float  # times the recipe's value
    scores: Values

    def spread(self, key: str) -> Spread:
        return spread(self.scores[key])


@dataclass(frozen=True)
class SensitivityCurve:
    """The sensitivity to one beta; without points where the recipe has it at 0."""

    key: str
    label: str
    about: str
    weights: Mapping[str, float]  # the recipe's values
    points: tuple[SensitivityPoint, ...] = ()


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
class InferenceCost:
    """What one step of inference costs per image."""

    key: str
    label: str
    microseconds: float
    mflops: float
    parameters: int


@dataclass(frozen=True)
class DiagnosedLayer:
    """What FR is given to work with: the quantities of fscil.experiments.ablate.diagnosis."""

    block: int  # 0: the final features
    values: Mapping[str, float]


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
    steps: tuple[AblationRow, ...] = ()
    layers: tuple[AblationRow, ...] = ()
    choices: tuple[AblationRow, ...] = ()  # the recipe, then with one option changed at a time
    curves: tuple[SensitivityCurve, ...] = ()
    predictors: tuple[Predictor, ...] = ()
    costs: tuple[InferenceCost, ...] = ()
    diagnosis: tuple[DiagnosedLayer, ...] = ()
    batch: int = 0  # images in a batch when the cost was measured
    schema: int = SCHEMA
    kind: str = KIND

    def step(self, key: str) -> AblationRow | None:
        return next((row for row in self.steps if row.key == key), None)

    def gains(self, key: str = HEADLINE) -> dict[str, Difference]:
        """Of every step over the one that it adds to, by its key: one family."""
        pairs = zip(self.steps[1:], self.steps, strict=False)
        return corrected({row.key: _gain(row, self.step(row.over) or above, key) for row, above in pairs})

    def changed(self, key: str = HEADLINE) -> dict[str, Difference]:
        """Of every choice made otherwise over the recipe, by its key: one family."""
        return corrected({row.key: _gain(row, self.choices[0], key) for row in self.choices[1:]})

    def whole_gain(self, key: str = HEADLINE) -> Difference:
        """Of the last step over the first."""
        return _gain(self.steps[-1], self.steps[0], key)

    def to_json(self) -> dict[str, Any]:
        return to_dict(self)


def _gain(row: AblationRow, before: AblationRow, key: str) -> Difference:
    """Paired over the draws, which all rows share."""
    return paired([a - b for a, b in zip(row.scores[key], before.scores[key], strict=True)])


@dataclass(frozen=True)
class TakenSettings:
    """What a page takes from the settings as they were stored."""

    shot: int
    scale: float = 16.0
    weight_all: float = 0.0


def _check_complete(found: Ablation) -> None:
    """That everything which a page takes from the file is there, a value per draw."""
    scores = [row.scores for row in (*found.steps, *found.layers, *found.choices)]
    scores += [point.scores for curve in found.curves for point in curve.points]
    wanted: list[tuple[Values, Sequence[str]]] = [(values, SCORES) for values in scores]
    for each in found.predictors:
        wanted.append((each.temperatures, TEMPERATURES))
        wanted += [(part[group], QUALITY) for part in (each.before, each.after) for group in GROUPS]
        _ = [each.bins[moment][group] for moment in MOMENTS for group in GROUPS]
    for values, keys in wanted:
        if any(len(values[key]) != found.draws for key in keys):
            raise InputError(f"not {found.draws} values of each of {', '.join(keys)}")
    predictors, costs = {each.key for each in found.predictors}, {cost.key for cost in found.costs}
    if (predictors and "ensemble" not in predictors) or (costs and not {"all", "layers", "backbone"} <= costs):
        raise InputError("a predictor or a cost is missing")
    if any(min(cost.microseconds, cost.mflops) <= 0 for cost in found.costs):
        raise InputError("a cost that is not above 0")
    if any(curve.points and all(point.factor != 1 for point in curve.points) for curve in found.curves):
        raise InputError("a curve without the recipe's own value")
    taken = {key: found.options[key] for key in ("scale", "weight_all") if key in found.options}
    build(TakenSettings, {**taken, "shot": found.config.get("data", {}).get("shot", 0)})


def is_ablation(document: Any) -> bool:
    return isinstance(document, Mapping) and document.get("kind") == KIND


def parse_ablation(document: Any, source: str = "the file") -> Ablation:
    if not is_ablation(document):
        raise InputError(f"{source} is not an ablation; give an ablation.json that `fscil ablate` wrote.")
    if document.get("schema") != SCHEMA:
        raise InputError(f"{source} has schema {document.get('schema')!r:.40}, this version reads schema {SCHEMA}.")
    try:
        found = build(Ablation, document)
        _check_complete(found)
        return found
    except (TypeError, AttributeError, KeyError, InputError) as error:
        raise InputError(f"{source} is not a complete ablation ({error!s:.200}); run `fscil ablate` again.") from None


def load_ablation(path: Path) -> Ablation:
    return parse_ablation(read_json(path), str(path))

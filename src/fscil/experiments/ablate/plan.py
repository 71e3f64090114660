"""What is measured: the rows of the ablation, choices of the recipe and weights that are varied, as changed options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fscil.methods.yourself import RECTIFIED, YourSelf

PARTS = ("ablation", "layers", "choices", "sensitivity", "calibration", "diagnosis")
FACTORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # times the recipe's value
ENSEMBLE = "ensemble"  # the choice that is of the prediction alone: nothing is trained again for it

Changes = Mapping[str, Any]  # options of YourSelf that differ from the recipe


@dataclass(frozen=True)
class AblationStep:
    """A row of the ablation table: YourSelf with some of its losses off."""

    key: str  # of the paper's row (fscil.paper)
    label: str
    changes: Changes | None  # None: nothing is trained
    over: str = ""  # key of the row that it adds to
    part: str = RECTIFIED  # which part of the ensemble is judged; empty: all of it


@dataclass(frozen=True)
class Beta:
    """One beta of the paper: the options that it multiplies here, with the recipe's values."""

    key: str
    label: str
    weights: Mapping[str, float]
    about: str

    def scaled(self, factor: float) -> Changes:
        return {} if factor == 1 else {name: factor * value for name, value in self.weights.items()}


_ADDED = (
    ("yourself-all", "+ CE on all replayed classes", ("weight_all",)),
    ("yourself-cos-cr", "+ CR", ("weight_cr",)),
    ("yourself", "+ IR", ("weight_intra", "weight_inter")),
)


def steps(method: YourSelf) -> tuple[AblationStep, ...]:
    """Each adds one thing that the recipe has; what it does not have has no row."""
    off = {weight: 0.0 for _, _, weights in _ADDED for weight in weights}
    found = [
        AblationStep("prototypes", "no FR: class means", None),
        AblationStep("whitened-means", "class means of whitened layers, untrained", None, "prototypes"),
        AblationStep("raw-layers", "+ layers: their class means averaged, untrained", None, "prototypes"),
        AblationStep("yourself-cos", "+ FR: cos, novel CE", off, "raw-layers"),
    ]
    for key, label, weights in _ADDED:
        if any(getattr(method, weight) for weight in weights):
            off = {weight: value for weight, value in off.items() if weight not in weights}
            found.append(AblationStep(key, label, off, found[-1].key))
    if method.whitened:
        found.append(AblationStep("whitened", "+ whitened: all of it", {}, found[-1].key, part=""))
    return tuple(found)


@dataclass(frozen=True)
class Choice:
    """One option of the recipe with another value."""

    option: str
    value: Any
    label: str

    @property
    def changes(self) -> Changes:
        return {} if self.option == ENSEMBLE else {self.option: self.value}


_CHOICES: Mapping[str, Mapping[Any, str]] = {
    "prototypes": {"head": "base classes by the classifier's weights", "means": "base classes by class means"},
    "joint": {False: "a Gaussian per class and layer", True: "one Gaussian per class over all layers"},
    "top_k": {
        1: "covariance of the nearest base class",
        2: "covariance of the two nearest base classes",
        4: "covariance of the four nearest base classes",
    },
    "pool": {600: "replay from a pool of 600 samples a class", 0: "replay of fresh samples in every step"},
    "replay": {True: "replay", False: "no replay: the session's shots alone"},
    "first_step": {"released": "first step of a session as released", "dampened": "first step of a session dampened"},
    ENSEMBLE: {"softmax": "prediction by the mean softmax", "logits": "prediction by the mean logits"},
    "residual": {False: "FR output alone", True: "FR output added to the final feature"},
    "own_relations": {False: "CR by the final prototypes", True: "CR by the layer's own class means"},
    "reverse_relations": {False: "CR as KL(layer, rectified)", True: "CR as KL(rectified, layer)"},
    "weight_all": {0.0: "no CE on all replayed classes", 0.3: "CE on all replayed classes"},
}


def choices(method: YourSelf, *, head: bool = True) -> tuple[Choice, ...]:
    """What the recipe chose otherwise, one at a time; without `head` the network has no classifier to choose."""
    return tuple(
        Choice(option, value, label)
        for option, labels in _CHOICES.items()
        for value, label in labels.items()
        if value != getattr(method, option) and (head or value != "head")
    )


def betas(method: YourSelf) -> tuple[Beta, ...]:
    """The three betas with the recipe's values."""
    return (
        Beta(
            "cos",
            "β_cos",
            {"weight_cos": method.weight_cos},
            "weight_cos, the cosine constraint alone (in the paper's formula β_cos also weighs the novel "
            "cross-entropy, which stays as it is here)",
        ),
        Beta("cr", "β_CR", {"weight_cr": method.weight_cr}, "weight_cr, the class relation"),
        Beta(
            "ir",
            "β_IR",
            {"weight_intra": method.weight_intra, "weight_inter": method.weight_inter},
            "weight_intra and weight_inter, the instance relation of pairs of one class and of two, scaled together",
        ),
    )

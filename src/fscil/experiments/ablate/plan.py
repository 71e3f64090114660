"""What is measured: the rows of the ablation, and the weights that are varied, as changes to the recipe's options."""

from collections.abc import Mapping
from dataclasses import dataclass

from fscil.methods.yourself import RECTIFIED, YourSelf

PARTS = ("ablation", "layers", "sensitivity", "calibration")
FACTORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # times the recipe's value

Changes = Mapping[str, float]  # options of YourSelf that differ from the recipe


@dataclass(frozen=True)
class AblationStep:
    """A row of the ablation table: YourSelf with some of its losses off."""

    key: str  # of the paper's row (fscil.paper)
    label: str
    changes: Changes | None  # None: no FR at all
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


_NO_IR = {"weight_intra": 0.0, "weight_inter": 0.0}
STEPS = (
    AblationStep("prototypes", "no FR: class means", None),
    AblationStep("yourself-cos", "+ FR: cos, novel CE", {"weight_cr": 0.0, **_NO_IR}),
    AblationStep("yourself-cos-cr", "+ CR", _NO_IR),
    AblationStep("yourself", "+ IR", {}),
    AblationStep("whitened", "+ whitened: all of it", {}, part=""),
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

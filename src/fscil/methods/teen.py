"""TEEN: move the prototype of a new class towards the base classes it resembles. Nothing is trained.

Wang et al., Few-Shot Class-Incremental Learning via Training-Free Prototype Calibration, NeurIPS 2023.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Amount, Share
from fscil.data.session import Session, View
from fscil.methods.base import Method, features, mean_features
from fscil.methods.rows import appended


@dataclass
class TEEN(Method):
    name = "teen"
    title = "TEEN"
    paper = "Wang et al., NeurIPS 2023"
    differences = "the last epoch is kept, not the best on the test set"

    share: Share = 0.1  # alpha: weight of the base mix in a new prototype (published: 0.1 on CIFAR-100, else 0.5)
    temperature: Amount = 16.0  # tau: how much the most similar base classes count for more

    def fit_base(self, session: Session) -> None:
        self.means_ = mean_features(features(session).final, session)
        self.rows_ = F.normalize(self.means_, dim=-1)
        self.base_ = len(session.classes)

    def fit_novel(self, session: Session) -> None:
        means = mean_features(features(session).final, session)
        base = self.means_[: self.base_]  # never the earlier new classes: the order of sessions does not matter
        rows = calibrated(means, base, kinship(means, base, self.temperature), self.share)
        self.means_ = appended(self.means_, means)
        self.rows_ = appended(self.rows_, rows)

    def scores(self, view: View) -> Tensor:
        return _cosines(view, self.rows_)

    def unrectifiable(self) -> str:
        return ""

    def class_vectors(self) -> Tensor:
        return self.rows_

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"not calibrated": lambda view: _cosines(view, self.means_)}


def _cosines(view: View, rows: Tensor) -> Tensor:
    return F.normalize(view.final, dim=-1) @ F.normalize(rows, dim=-1).T


def kinship(new: Tensor, base: Tensor, temperature: float) -> Tensor:
    """How much each new class resembles each base class: (new, base) rows that sum to 1, a softmax over cosines."""
    return F.softmax(temperature * F.normalize(new, dim=-1) @ F.normalize(base, dim=-1).T, dim=-1)


def calibrated(new: Tensor, base: Tensor, weights: Tensor, share: float) -> Tensor:
    """Unit prototypes of new classes, moved by `share` towards the unit mix of unit base prototypes."""
    mix = F.normalize(weights @ F.normalize(base, dim=-1), dim=-1)
    return (1 - share) * F.normalize(new, dim=-1) + share * mix

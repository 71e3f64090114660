"""TEEN: move the prototype of a new class towards the base classes it resembles. Nothing is trained.

Wang et al., Few-Shot Class-Incremental Learning via Training-Free Prototype Calibration, NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data.session import Session, View
from fscil.methods.base import Method, features, mean_features
from fscil.methods.kinship import calibrated, kinship


@dataclass
class TEEN(Method):
    name: ClassVar[str] = "teen"
    title: ClassVar[str] = "TEEN"
    paper: ClassVar[str] = "Wang et al., NeurIPS 2023"
    differences: ClassVar[str] = "the last epoch is kept, not the best on the test set"

    share: float = 0.1  # alpha: weight of the base mix in a new prototype (published: 0.1 on CIFAR-100, else 0.5)
    temperature: float = 16.0  # tau: how much the most similar base classes count for more

    def start(self, *, seed: int, depth: int, device: torch.device) -> None:
        super().start(seed=seed, depth=depth, device=device)
        if not 0 <= self.share <= 1:
            raise InputError(f"options.teen.share must lie between 0 and 1; got {self.share}.")
        if self.temperature < 0:
            raise InputError(f"options.teen.temperature must not be negative; got {self.temperature}.")

    def fit_base(self, session: Session) -> None:
        self.means_ = mean_features(features(session).final, session.labels, session.classes)
        self.rows_ = F.normalize(self.means_, dim=-1)
        self.base_ = len(session.classes)

    def fit_novel(self, session: Session) -> None:
        means = mean_features(features(session).final, session.labels, session.classes)
        base = self.means_[: self.base_]  # never the earlier new classes: the order of sessions does not matter
        rows = calibrated(means, base, kinship(means, base, self.temperature), self.share)
        self.means_ = torch.cat([self.means_, means])
        self.rows_ = torch.cat([self.rows_, rows])

    def scores(self, view: View) -> Tensor:
        return _cosines(view, self.rows_)

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"not calibrated": lambda view: _cosines(view, self.means_)}


def _cosines(view: View, rows: Tensor) -> Tensor:
    return F.normalize(view.final, dim=-1) @ F.normalize(rows, dim=-1).T

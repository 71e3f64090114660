"""Ridge regression on frozen features: the best linear classifier in the squared sense, exact however the classes come.

What is kept of all images are sums: their Gram matrix and, for each class, the sum of its features and their number.
From these follow the same weights as from all images at once, in whatever sessions they came.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Amount
from fscil.data.session import Session, View
from fscil.methods.base import Method, features

RIDGES = tuple(10.0**power for power in range(-8, 9))  # those that RanPAC's code tries
HELD_OUT = 0.2  # of the images of each base class, to choose among them


@dataclass
class RidgeClassifier(Method):
    """Sums in double precision: differences of large ones are small, and the smallest ridge is 1e-8."""

    intercept: ClassVar[bool]

    ridge: Amount = 0.0  # 0: that of 10^-8 to 10^8 with the smallest squared error on held-out base images
    # Every class counts alike, however many images it has: else a class with five is a small part of the error.
    balance: bool = True

    @abstractmethod
    def inputs(self, x: Tensor) -> Tensor:
        """What is regressed on, from final features (n, d) in double precision."""

    def fit_base(self, session: Session) -> None:
        x = self.inputs(features(session).final.double())
        self.gram_, self.cross_ = x.new_zeros(x.shape[1], x.shape[1]), x.new_zeros(x.shape[1], 0)
        self.sizes_ = x.new_zeros(0)  # of the classes, as they count
        self.ridge_ = self.ridge or self._best(session)
        self._add(x, session)

    def fit_novel(self, session: Session) -> None:
        self._add(self.inputs(features(session).final.double()), session)

    def scores(self, view: View) -> Tensor:
        return self.inputs(view.final.double()) @ self.weights_ + self.offsets_

    def _add(self, x: Tensor, session: Session) -> None:
        gram, cross, sizes = self._sums(x, session)
        self.gram_ = self.gram_ + gram
        self.cross_, self.sizes_ = torch.cat([self.cross_, cross], 1), torch.cat([self.sizes_, sizes])
        self.weights_, self.offsets_ = self._solve(self.gram_, self.cross_, self.sizes_, self.ridge_)

    def _sums(self, x: Tensor, session: Session) -> tuple[Tensor, Tensor, Tensor]:
        """Gram matrix (d, d), sums of the classes (d, c) and their sizes (c,), every image with its weight."""
        targets = F.one_hot(session.labels - session.classes.start, len(session.classes)).to(x)
        weights = self._weights(targets)
        return x.T @ (weights[:, None] * x), x.T @ (weights[:, None] * targets), weights @ targets

    def _weights(self, targets: Tensor) -> Tensor:
        """Of the images."""
        sizes = targets.sum(0)
        return targets @ (1 / sizes.clamp(min=1)) if self.balance else torch.ones_like(targets[:, 0])

    def _solve(self, gram: Tensor, cross: Tensor, sizes: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
        """Weights (d, c) and offsets (c,), which are not made small."""
        target = sizes / sizes.sum()  # mean of the one-hot targets
        mean = cross.sum(1) / sizes.sum()
        if self.intercept:
            gram = gram - sizes.sum() * torch.outer(mean, mean)
            cross = cross - torch.outer(mean, sizes)
        weights = torch.linalg.solve(gram + ridge * torch.eye(len(gram)).to(gram), cross)
        return weights, target - mean @ weights if self.intercept else torch.zeros_like(target)

    def _best(self, session: Session) -> float:
        learned, held = session.hold_out(HELD_OUT, self.seed_)
        sums = self._sums(self.inputs(features(learned).final.double()), learned)
        x = self.inputs(features(held).final.double())
        targets = F.one_hot(held.labels, len(held.classes)).to(x)
        weights = self._weights(targets)[:, None]

        def error(ridge: float) -> float:
            found, offsets = self._solve(*sums, ridge)
            return float((weights * (x @ found + offsets - targets).square()).sum())

        return min(RIDGES, key=error)


@dataclass
class Ridge(RidgeClassifier):
    name = "ridge"
    title = "Ridge regression"
    paper = "Hoerl and Kennard, Technometrics 1970"
    mark = "reference"
    intercept = True

    unit: bool = True  # features of length 1

    def inputs(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) if self.unit else x

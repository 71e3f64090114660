"""Linear discriminant analysis on frozen features: class means, and one covariance that all classes share.

Fisher 1936; as classes come one after another, Hayes and Kanan, CVPR workshops 2020 (deep SLDA). What is kept are the
means and the scatter of all images around the mean of their class, which add up exactly.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Bounds
from fscil.data.session import Session, View
from fscil.methods.base import Method, features, mean_features

SHRINKAGES = (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
HELD_OUT = 0.2  # of the images of each base class, to choose among them


@dataclass
class LDA(Method):
    name = "lda"
    title = "Linear discriminant analysis"
    paper = "Hayes and Kanan, CVPR workshops 2020"
    mark = "reference"
    differences = "the shrinkage is chosen on held-out base images (published: 1e-4)"

    # Share of the covariance that is replaced by its mean variance in all directions; 0: that with the smallest
    # cross-entropy on held-out base images.
    shrinkage: Annotated[float, Bounds(low=0, high=1)] = 0.0

    def fit_base(self, session: Session) -> None:
        x = features(session).final.double()
        self.shrinkage_ = self.shrinkage or self._best(session)
        self.means_, self.scatter_, self.count_ = x.new_zeros(0, x.shape[1]), x.new_zeros(x.shape[1], x.shape[1]), 0
        self._add(x, session)

    def fit_novel(self, session: Session) -> None:
        self._add(features(session).final.double(), session)

    def scores(self, view: View) -> Tensor:
        """Logarithms of likelihoods, but for what all classes have alike; every class is as likely beforehand."""
        return _scores(view.final.double(), self.weights_, self.means_)

    def unrectifiable(self) -> str:
        return ""

    def class_vectors(self) -> Tensor:
        return self.means_.float()

    def _add(self, x: Tensor, session: Session) -> None:
        means, scatter = _sums(x, session)
        self.means_, self.scatter_ = torch.cat([self.means_, means]), self.scatter_ + scatter
        self.count_ += len(x)
        self.weights_ = _solve(self.means_, self.scatter_ / self.count_, self.shrinkage_)

    def _best(self, session: Session) -> float:
        learned, held = session.hold_out(HELD_OUT, self.seed_)
        means, scatter = _sums(features(learned).final.double(), learned)
        x = features(held).final.double()

        def loss(shrinkage: float) -> float:
            weights = _solve(means, scatter / len(learned), shrinkage)
            return float(F.cross_entropy(_scores(x, weights, means), held.labels))

        return min(SHRINKAGES, key=loss)


def _sums(x: Tensor, session: Session) -> tuple[Tensor, Tensor]:
    """Class means (c, d) and the scatter around them (d, d)."""
    means = mean_features(x, session)
    centred = x - means[session.labels - session.classes.start]
    return means, centred.T @ centred


def _solve(means: Tensor, covariance: Tensor, shrinkage: float) -> Tensor:
    """(d, c): the inverse of the covariance on the means. Of a zero covariance nothing is left but distances."""
    identity = torch.eye(len(covariance)).to(covariance)
    spread = covariance.diagonal().mean()
    shrunk = (1 - shrinkage) * covariance + shrinkage * spread * identity
    return torch.linalg.solve(shrunk, means.T) if spread > 0 else means.T.clone()


def _scores(x: Tensor, weights: Tensor, means: Tensor) -> Tensor:
    return x @ weights - 0.5 * (means.T * weights).sum(0)

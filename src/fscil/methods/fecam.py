"""FeCAM: distance to a class mean by the class's own covariance, shrunk and made a correlation. Nothing is trained.

Goswami et al., FeCAM: Exploiting the Heterogeneity of Class Distributions in Exemplar-Free Continual Learning, NeurIPS
2023; with `calibrate`, C-FeCAM of Goswami et al., Calibrating Higher-Order Statistics for Few-Shot Class-Incremental
Learning with Pre-trained Vision Transformers, CVPR workshops 2024.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.errors import InputError
from fscil.core.options import Amount, Count, Positive, Share
from fscil.data.session import Session, View
from fscil.methods.base import Method, features, mean_features
from fscil.methods.rows import appended
from fscil.methods.teen import calibrated, kinship


@dataclass
class FeCAM(Method):
    name = "fecam"
    title = "FeCAM"
    paper = "Goswami et al., NeurIPS 2023"
    differences = "the base session is scored like the others; shrinkage chosen without test data"

    power: Share = 0.5  # Tukey's transform where no feature is negative; 0: log, 1: none (as always with calibrate)
    diagonal: Positive = 100.0  # gamma 1: the mean variance times this is added to every variance
    rest: Amount = 0.0  # gamma 2: the mean covariance times this is added to every covariance
    rounds: Count = 1  # how often that is done (the authors' code: twice)
    correlation: bool = True  # divide by the standard deviations, so that classes of any spread compare
    calibrate: bool = False  # C-FeCAM: new classes borrow mean and covariance from the base classes they resemble
    share: Share = 0.1  # calibrate: weight of the base mix in a new mean (published: 0.1, CIFAR-100 0.25)
    temperature: Amount = 16.0  # calibrate: how much the most similar base classes count for more

    def start(self, *, seed: int, depth: int, device: torch.device) -> None:
        super().start(seed=seed, depth=depth, device=device)
        if self.rest > self.diagonal:
            raise InputError(
                f"options.fecam.rest must not exceed diagonal, else a covariance of few shots has no inverse; "
                f"got rest={self.rest} and diagonal={self.diagonal}."
            )

    def fit_base(self, session: Session) -> None:
        x = features(session).final
        # Tukey's transform needs a last ReLU; a transformer's features keep their signs and are made unit instead.
        self.signed_ = bool((x < 0).any())
        self.base_ = len(session.classes)
        self.means_ = mean_features(self._prepared(x), session)
        self.covariances_ = self._covariances(x, session)
        self.whitening_ = self._whitening(self.covariances_)
        self.centres_ = self._centres(self.means_)

    def fit_novel(self, session: Session) -> None:
        x = features(session).final
        means = mean_features(self._prepared(x), session)
        covariances = self._covariances(x, session)
        lonely = torch.bincount(session.labels - session.classes.start, minlength=len(means)) < 2
        covariances[lonely] = self.covariances_.mean(0)  # one shot has no spread of its own
        centres = self._centres(means)
        if self.calibrate:
            weights = kinship(means, self.means_, self.temperature)
            covariances = covariances + torch.einsum("nb,bij->nij", weights, self.covariances_)
            centres = self._centres(calibrated(means, self.means_, weights, self.share))
        self.centres_ = appended(self.centres_, centres)
        self.whitening_ = appended(self.whitening_, self._whitening(covariances))

    def scores(self, view: View) -> Tensor:
        """Minus the squared distances. Class by class: the differences of all classes at once would not fit."""
        x = F.normalize(self._tukey(F.normalize(self._prepared(view.final), dim=-1)), dim=-1)
        pairs = zip(self.centres_, self.whitening_, strict=True)
        return torch.stack([-((x - centre) @ root).square().sum(1) for centre, root in pairs], 1)

    def unrectifiable(self) -> str:
        return ""

    def class_vectors(self) -> Tensor:
        return self.centres_  # in the space of unit features: those of networks with layers have signs

    def _prepared(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) if self.signed_ else x

    def _tukey(self, x: Tensor) -> Tensor:
        if self.signed_ or self.calibrate or self.power == 1:
            return x
        x = x.clamp(min=0)  # a test feature cannot be negative either, but a rounding error can
        return x**self.power if self.power else torch.log(x + 1e-6)

    def _centres(self, means: Tensor) -> Tensor:
        return F.normalize(self._tukey(means), dim=-1)

    def _covariances(self, x: Tensor, session: Session) -> Tensor:
        x = self._tukey(self._prepared(x))
        centred = x - mean_features(x, session)[session.labels - session.classes.start]
        parts = [centred[session.labels == c] for c in session.classes]
        return torch.stack([part.T @ part / max(1, len(part) - 1) for part in parts])

    def _whitening(self, covariances: Tensor) -> Tensor:
        """R with R R^T the (pseudo-)inverse of each covariance, shrunk and as a correlation."""
        matrix = covariances.double()
        for _ in range(self.rounds):
            matrix = shrunk(matrix, self.diagonal, self.rest)
        if self.correlation:
            matrix = correlations(matrix)
        if not self.rest:  # definite, so the faster factor does
            eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
            factors = torch.linalg.cholesky(matrix)
            return torch.linalg.solve_triangular(factors, eye.expand_as(matrix), upper=False).mT.float()
        values, vectors = torch.linalg.eigh(matrix)
        kept = values > values[:, -1:] * 1e-10
        roots = torch.where(kept, values.clamp(min=1e-30).rsqrt(), 0)
        return (vectors * roots[:, None, :]).float()


def shrunk(covariances: Tensor, diagonal: float, rest: float) -> Tensor:
    """Covariances (n, d, d) plus shares of their mean variance and of their mean (non-zero) covariance."""
    eye = torch.eye(covariances.shape[-1], dtype=torch.bool, device=covariances.device)
    variance = covariances.diagonal(dim1=-2, dim2=-1).mean(-1)
    others = covariances.masked_fill(eye, 0)
    covariance = others.sum((1, 2)) / (others != 0).sum((1, 2)).clamp(min=1)
    added = torch.where(eye, diagonal * variance[:, None, None], rest * covariance[:, None, None])
    return covariances + added


def correlations(covariances: Tensor) -> Tensor:
    """S_ij / sqrt(S_ii S_jj); a feature that never varies is uncorrelated with all others."""
    variances = covariances.diagonal(dim1=-2, dim2=-1)
    deviations = variances.clamp(min=1e-20).sqrt()
    matrix = covariances / (deviations[:, :, None] * deviations[:, None, :])
    matrix.diagonal(dim1=-2, dim2=-1).fill_(1)
    return matrix

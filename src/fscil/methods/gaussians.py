"""Class Gaussians over features, the memory of past sessions (paper, 'Anti-forgetting training').

Base classes have their own covariance. A novel class, with a handful of shots, borrows the mean covariance of
the most similar base classes. Features of several layers are modelled per layer (as the authors do) or jointly,
which keeps what the layers of one image have in common.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.methods.base import means_by_label
from fscil.methods.rows import appended

_THIN = 8  # times as wide as a class has images


class ClassGaussians:
    """Means and covariance factors of all classes seen: `groups` independent Gaussians of width `dim` per class.

    Where classes have far fewer images than features are wide (30 photographs, 1,700 numbers), a covariance has no more
    directions than images: those are kept (`thin`), instead of matrices that are nearly all zeros. Samples are of the
    same distribution.
    """

    def __init__(self, top_k: int, jitter: float, base_classes: int) -> None:
        self.top_k, self.jitter, self.base_classes = top_k, jitter, base_classes
        self.means = torch.empty(0)  # (classes, groups, dim)
        self.covariances = torch.empty(0)  # (base classes, groups, dim, dim); thin: (.., dim, r), roots of them
        self.factors = torch.empty(0)  # (classes, groups, dim, dim), lower triangular; thin: (.., dim, top_k * r)

    @property
    def thin(self) -> bool:
        return self.covariances.shape[-1] < self.means.shape[-1]

    def fit_base(self, x: Tensor, labels: Tensor) -> None:
        """`x` is (n, groups, dim); labels count from 0."""
        _, groups, dim = x.shape
        self.means = means_by_label(x.flatten(1), labels, self.base_classes).unflatten(1, (groups, dim))
        sizes = torch.bincount(labels, minlength=self.base_classes)
        most = int(sizes.max())
        self.covariances = x.new_zeros(self.base_classes, groups, dim, most if most * _THIN <= dim else dim)
        for c, mean in enumerate(self.means):  # one product per class: a batch would need padding
            centred = (x[labels == c] - mean).transpose(0, 1)
            share = (sizes[c] - 1).clamp(min=1)
            if self.thin:  # main directions, at the length of their deviation: nothing of a single image is kept
                _, lengths, directions = torch.linalg.svd(centred / share.sqrt(), full_matrices=False)
                self.covariances[c, :, :, : lengths.shape[-1]] = (directions * lengths[..., None]).mT
            else:
                self.covariances[c] = centred.mT @ centred / share
        self.factors = self.covariances if self.thin else self._factor(self.covariances)

    def add_novel(self, means: Tensor) -> None:
        """New classes with the given means (new, groups, dim) and borrowed covariances."""
        base = F.normalize(self.means[: self.base_classes], dim=-1)
        similarity = torch.einsum("ngd,bgd->ngb", F.normalize(means, dim=-1), base)
        nearest = similarity.topk(min(self.top_k, self.base_classes), dim=-1).indices  # (new, groups, k)
        groups = torch.arange(means.shape[1], device=means.device)[None, :, None]
        lent = self.covariances[nearest, groups]
        if self.thin:  # roots side by side are a root of the sum
            new = (lent / lent.shape[2] ** 0.5).transpose(2, 3).flatten(3)
            self.factors = F.pad(self.factors, (0, new.shape[-1] - self.factors.shape[-1]))
        else:
            new = self._factor(lent.mean(2))
        self.means, self.factors = appended(self.means, means), appended(self.factors, new)

    def sample(self, classes: Tensor, per_class: int, generator: torch.Generator) -> Tensor:
        """(len(classes) * per_class, groups, dim), class by class."""
        groups, dim = self.means.shape[1:]
        kind, device = self.means.dtype, self.means.device

        def noise(width: int) -> Tensor:
            shape = (len(classes), groups, per_class, width)
            return torch.randn(shape, generator=generator, dtype=kind, device=device)

        drawn = (
            noise(self.factors.shape[-1]) @ self.factors[classes].transpose(-1, -2) + self.means[classes][:, :, None]
        )
        if self.thin:
            drawn += self.jitter**0.5 * noise(dim)
        return drawn.transpose(1, 2).flatten(0, 1)

    def pool(self, per_class: int, generator: torch.Generator) -> Tensor:
        """`per_class` samples of every class seen: (classes, per_class, groups, dim).

        A factor of a wide covariance is megabytes: reading it once for many samples, not for a few in every step, is
        most of the speed of training on them.
        """
        few = torch.arange(len(self.means), device=self.means.device).split(8)  # keeps the temporaries small
        return torch.cat(
            [self.sample(classes, per_class, generator).unflatten(0, (len(classes), per_class)) for classes in few]
        )

    def state_dict(self) -> dict[str, Tensor]:
        return {"means": self.means, "covariances": self.covariances, "factors": self.factors}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.means, self.covariances, self.factors = state["means"], state["covariances"], state["factors"]

    def _factor(self, covariances: Tensor) -> Tensor:
        return cholesky_factors(covariances, self.jitter)


def cholesky_factors(covariances: Tensor, jitter: float) -> Tensor:
    """The jitter on the diagonal grows until the (possibly rank-deficient) covariances can all be factored."""
    identity = torch.eye(covariances.shape[-1], dtype=covariances.dtype, device=covariances.device)
    while True:
        factors, failed = torch.linalg.cholesky_ex(covariances + jitter * identity)
        if not failed.any() and torch.isfinite(factors).all():
            return factors
        jitter *= 10
        if jitter > 1e3:
            raise FloatingPointError("A class covariance is not finite; check the features.")

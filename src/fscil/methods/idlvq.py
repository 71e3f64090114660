"""IDLVQ-C: a reference vector for every class, and the nearest one answers; few-shot sessions tune and calibrate.

Chen and Lee, Incremental Few-Shot Learning via Vector Quantization in Deep Embedded Space, ICLR 2021. A reconstruction:
there is no code, and the loss of a session is known by its parts alone. Base training: the objective `idlvq`.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from fscil.core.config import AugmentConfig
from fscil.core.options import Amount, BelowOne, Count, Positive, Whole
from fscil.data.session import Budget, Session, View
from fscil.methods.base import Method, class_means, descend, seeded
from fscil.methods.copies import check_labels_stay
from fscil.methods.networks import BeforeLastBlock, augmented, first_rows, own_network, pixels, seen, tuning


@dataclass
class IDLVQ(Method):
    """A reference vector for every class; sessions add some, tune the last block, and move the old ones after it."""

    name = "idlvq"
    title = "IDLVQ"
    paper = "Chen and Lee, ICLR 2021"
    mark = "reconstruction"
    needs = frozenset({"tunes"})
    differences = "there is no released code: the forms of all losses and all settings are ours"

    exemplars: Whole = 1  # images of every class that are kept; 0: none, the shots of a session stand in for them
    steps: Count = 30  # of a session; each sees all its shots and exemplars
    lr: Amount = 1e-3  # of the last block
    vector_lr: Amount = 1e-2  # of the new reference vectors
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4  # of the last block
    margin: Amount = 0.3  # by which the own vector shall be nearer than any other, in squared distances
    weight_intra: Amount = 0.01  # of the distance to the own vector
    weight_forget: Amount = 10.0  # of what the features of exemplars move
    width: Positive = 0.125  # of the Gaussians: scores are -distance / width
    reach: Positive = 0.3  # how near to a vector an image must be to move it after the network
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of the shots; exemplars stay as they are

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labels_stay(self.augment, f"{self.prefix}augment")

    def memory(self) -> Budget | None:
        return Budget(per_class=self.exemplars) if self.exemplars else None

    def keep(self, session: Session) -> Tensor:
        return self.chosen_

    def fit_base(self, session: Session) -> None:
        self.network_ = own_network(session)
        self.vectors_ = F.normalize(first_rows(self.network_, session), dim=-1)
        self._choose(session)

    def fit_novel(self, session: Session) -> None:
        shots, labels, kept = pixels(session), session.labels, session.memory
        held, held_labels = (kept.images, kept.labels) if kept else (shots, labels)
        both = torch.cat([held, shots])
        places, new = self._unit(both), nn.Parameter(class_means(self._unit(shots), session))
        backbone, exemplars = self.network_.backbone, BeforeLastBlock(self.network_.backbone, held)
        with torch.no_grad():
            before = exemplars.unit()
        y, generator = torch.cat([labels, held_labels]), self._generator(session.index, labels.device)
        with (
            tuning(backbone, backbone.last_block().parameters()) as tuned,
            seeded(self.seed_ * 1_000_003 + session.index, labels.device),  # the network may drop parts of itself
        ):

            def loss() -> Tensor:
                now = F.normalize(backbone(augmented(self.augment, shots, labels, generator)), dim=-1)
                still = exemplars.unit()
                apart = distances(torch.cat([now, still]), torch.cat([self.vectors_, F.normalize(new, dim=-1)]))
                own, moved = apart.gather(1, y[:, None]).mean(), (still - before).square().sum(1).mean()
                return margin_loss(apart, y, self.margin) + self.weight_intra * own + self.weight_forget * moved

            groups: list[dict[str, Any]] = [
                {"params": tuned},
                {"params": [new], "lr": self.vector_lr, "weight_decay": 0.0},
            ]
            descend(loss, SGD(groups, self.lr, self.momentum, weight_decay=self.weight_decay), self.steps)
        old = calibrated(self.vectors_, places, self._unit(both) - places, self.reach)
        self.vectors_ = torch.cat([old, F.normalize(new.detach(), dim=-1)])
        self._choose(session)

    def scores(self, view: View) -> Tensor:
        return -distances(self._unit(pixels(view)), self.vectors_) / self.width

    def _unit(self, images: Tensor) -> Tensor:
        return F.normalize(seen(self.network_, images), dim=-1)

    def _choose(self, session: Session) -> None:
        """Exemplars: of every class of the session, the images nearest to its vector."""
        apart = distances(self._unit(pixels(session)), self.vectors_[session.classes.start :])
        chosen = [session.labels[:0]]
        for place, label in enumerate(session.classes):
            rows = torch.nonzero(session.labels == label).flatten()
            chosen.append(rows[apart[rows, place].argsort()[: self.exemplars]])
        self.chosen_ = torch.cat(chosen)


def distances(x: Tensor, vectors: Tensor) -> Tensor:
    """Squared, (n, classes)."""
    return x.square().sum(1, keepdim=True) + vectors.square().sum(1) - 2 * x @ vectors.T


def margin_loss(found: Tensor, labels: Tensor, margin: float) -> Tensor:
    """0 where the own vector is nearer than every other by the margin; of squared distances (n, classes)."""
    own = F.one_hot(labels, found.shape[1]).bool()
    nearest = found.masked_fill(own, torch.inf).amin(1)
    return (found[own] - nearest + margin).clamp(min=0).mean()


def drift(vectors: Tensor, places: Tensor, moves: Tensor, reach: float) -> Tensor:
    """How far the space moved around every vector: the mean of the moves (n, d), by how near their places were."""
    return torch.softmax(-distances(vectors, places) / (2 * reach**2), dim=1) @ moves


def calibrated(vectors: Tensor, places: Tensor, moves: Tensor, reach: float) -> Tensor:
    """Unit vectors moved with the space around them; where nothing moved, the same to the last bit."""
    moved = drift(vectors, places, moves, reach)
    return torch.where(moved.any(1, keepdim=True), F.normalize(vectors + moved, dim=-1), vectors)

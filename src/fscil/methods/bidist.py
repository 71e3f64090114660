"""BiDist: a copy of the network learns new classes, taught by the base network and by itself a session ago.

Zhao et al., Few-Shot Class-Incremental Learning via Class-Aware Bilateral Distillation, CVPR 2023. Which teacher counts
how much is learned class by class; how the base network and the copy answer together is learned as well. One image of
every class is kept. Base training: the objective `bidist`.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.config import AugmentConfig
from fscil.core.options import Amount, BelowOne, Bounds, Count, Positive, Whole
from fscil.data.session import Budget, Session, View
from fscil.methods.base import Method, descend, means_by_label, seeded
from fscil.methods.copies import check_labels_stay
from fscil.methods.module_state import at_rest
from fscil.methods.networks import augmented, own_network, pixels, seen, tuning
from fscil.objectives.base import cosine_logits
from fscil.objectives.distill import distillation
from fscil.training.checkpoint import Classifier


@dataclass(frozen=True)
class Batch:
    """What a step sees: all shots in random order, then images of earlier classes."""

    images: Tensor
    labels: Tensor
    shots: int


@dataclass(frozen=True)
class Opinions:
    """Logits (n, classes) of a batch: of the base network, of the copy before the session, and of the copy now."""

    base: Tensor
    before: Tensor
    now: Tensor


@dataclass
class BiDist(Method):
    """Two networks: one stays as base training left it, its copy learns in sessions from it and from its own past."""

    name = "bidist"
    title = "BiDist"
    paper = "Zhao et al., CVPR 2023"
    needs = frozenset({"tunes"})
    differences = (
        "the last epoch of base training, not the best on the test set; on networks other than ResNets the last stage "
        "is the last block; where base training learned no factor of cosines, that of the head"
    )

    steps: Count = 100  # of a session; each sees all its shots
    lr: Amount = 1e-3  # of the copy's last stage and of all rows
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    replay: Annotated[int, Bounds(low=2)] = (
        50  # kept images in every step, with repetition; half of them of base classes
    )
    distilled: Whole = 5  # shots of a step that teachers are asked about too, besides the kept images
    temperature: Positive = 16.0  # of the distillation
    weight_kept: Amount = 5.0  # of the cross-entropy of kept images; that of shots counts 1
    weight_distilled: Amount = 100.0
    weight_trust: Amount = 1.0  # of the share that the copy's past has as a teacher
    weight_merged: Amount = 5.0  # of the cross-entropy of both networks together
    weight_branch: Amount = 50.0  # of telling base classes from later ones, by which the two are merged
    hidden: Count = 64  # numbers in between of the two layers that weigh teachers, and of those that weigh networks
    mixing_lr: Amount = 0.01  # of these layers, which are new in every session
    scale: Positive = 10.0  # of cosines, on a network without a cosine head
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of shots and kept images

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labels_stay(self.augment, f"{self.prefix}augment")

    def memory(self) -> Budget:
        return Budget(per_class=1)

    def keep(self, session: Session) -> Tensor:
        return self.chosen_

    def networks(self) -> dict[str, Callable[[], Any]]:
        return {"branches_": lambda: two_layers(2 * len(self.rows_), self.hidden, 2)}

    def fit_base(self, session: Session) -> None:
        self.network_ = own_network(session)
        self.base_network_ = copy.deepcopy(self.network_)
        learned, head = session.extras.get("cosine_scale"), self.network_.head
        self.scale_ = float(learned if learned is not None else getattr(head, "scale", self.scale))
        self.base_ = len(session.classes)
        self.rows_ = mean_of_units(self.network_, session)
        self.base_rows_ = self.rows_.clone()
        self._choose(session)

    def fit_novel(self, session: Session) -> None:
        device = session.labels.device
        start = torch.cat([self.rows_, mean_of_units(self.network_, session)])
        self.base_rows_ = torch.cat([self.base_rows_, mean_of_units(self.base_network_, session)])
        rows, before = nn.Parameter(start.clone()), copy.deepcopy(self.network_.backbone)
        backbone, random = self.network_.backbone, self._generator(session.index, device)
        with seeded(self.seed_ * 1_000_003 + session.index, torch.device("cpu")):
            teachers = two_layers(self.base_, self.hidden, 1).to(device)
            branches = two_layers(2 * len(rows), self.hidden, 2).to(device)
        with (
            tuning(backbone, [*backbone.last_stage().parameters(), rows]) as tuned,
            seeded(self.seed_ * 1_000_003 + 10_000 + session.index, device),  # the network may drop parts of itself
        ):

            def loss() -> Tensor:
                batch = self._batch(session, random)
                with torch.no_grad():
                    inner = backbone.forward_until(batch.images, backbone.stages - 1)  # what all three have in common

                def logits(network: Any, vectors: Tensor) -> Tensor:
                    return cosine_logits(network.forward_from(inner, network.stages - 1), vectors, self.scale_)

                with torch.no_grad():
                    base, past = logits(self.base_network_.backbone, self.base_rows_), logits(before, start)
                return self._loss(batch, Opinions(base, past, logits(backbone, rows)), teachers, branches)

            groups: list[dict[str, Any]] = [
                {"params": tuned},
                {"params": [*teachers.parameters(), *branches.parameters()], "lr": self.mixing_lr},
            ]
            optimizer = torch.optim.SGD(
                groups, self.lr, self.momentum, nesterov=self.momentum > 0, weight_decay=self.weight_decay
            )
            descend(loss, optimizer, self.steps)
        self.rows_, self.branches_ = rows.detach(), at_rest(branches)
        self._choose(session)

    def scores(self, view: View) -> Tensor:
        if len(self.rows_) == self.base_:
            return self._base_logits(view)
        return merged(self.branches_, self._base_logits(view), self._own_logits(view))

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"base network": self._base_logits, "its copy": self._own_logits}

    def _base_logits(self, view: View) -> Tensor:
        return cosine_logits(seen(self.base_network_, pixels(view)), self.base_rows_, self.scale_)

    def _own_logits(self, view: View) -> Tensor:
        return cosine_logits(seen(self.network_, pixels(view)), self.rows_, self.scale_)

    def _batch(self, session: Session, random: torch.Generator) -> Batch:
        assert session.memory is not None
        kept, device = session.memory, session.labels.device
        order = torch.rand(len(session), generator=random, device=device).argsort()
        later = kept.labels >= self.base_
        groups = [rows for rows in (torch.nonzero(~later).flatten(), torch.nonzero(later).flatten()) if len(rows)]
        count = self.replay // len(groups)
        drawn = [rows[torch.randint(len(rows), (count,), generator=random, device=device)] for rows in groups]
        chosen = torch.cat(drawn)
        images = torch.cat([pixels(session)[order], kept.images[chosen]])
        labels = torch.cat([session.labels[order], kept.labels[chosen]])
        return Batch(augmented(self.augment, images, labels, random), labels, len(order))

    def _loss(self, batch: Batch, answers: Opinions, teachers: nn.Module, branches: nn.Module) -> Tensor:
        shots, labels = batch.shots, batch.labels
        asked = slice(max(0, shots - self.distilled), None)
        wanted, trust = self._teacher(answers, labels, teachers)
        loss = F.cross_entropy(answers.now[:shots], labels[:shots])
        loss = loss + self.weight_kept * F.cross_entropy(answers.now[shots:], labels[shots:])
        learned = distillation(answers.now[asked], [wanted[asked]], "soft", self.temperature)
        loss = loss + self.weight_distilled * learned
        later = labels[asked] >= self.base_
        if trust is not None and later.any():
            loss = loss + self.weight_trust * (1 - trust[asked][later]).mean()
        # Neither network learns from how the two are merged.
        base, now, is_later = answers.base, answers.now.detach(), (labels >= self.base_).long()
        together = F.cross_entropy(merged(branches, base, now), labels)
        telling = F.cross_entropy(branches(both_named(base, now)), is_later)
        return loss + self.weight_merged * together + self.weight_branch * telling

    def _teacher(self, answers: Opinions, labels: Tensor, teachers: nn.Module) -> tuple[Tensor, Tensor | None]:
        """What the copy should answer, and how much of it is the base network's; None: all, as in the first session."""
        if len(self.rows_) == self.base_:
            return answers.base, None
        unit = F.normalize(self.base_rows_, dim=-1)
        shares = torch.sigmoid(teachers(unit @ unit[: self.base_].T))[
            :, 0
        ]  # of every class, by its likeness to base ones
        trust = torch.where(labels < self.base_, 1.0, shares[labels])
        return trust[:, None] * answers.base + (1 - trust[:, None]) * answers.before, trust

    def _choose(self, session: Session) -> None:
        """Of every class of the session the image that is nearest to its row."""
        unit = F.normalize(seen(self.network_, pixels(session)), dim=-1)
        own = F.normalize(self.rows_, dim=-1)[session.labels]
        near = (unit * own).sum(1)
        rows = [torch.nonzero(session.labels == label).flatten() for label in session.classes]
        self.chosen_ = torch.stack([members[near[members].argmax()] for members in rows])


def two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def both_named(base: Tensor, now: Tensor) -> Tensor:
    """What the merging layers see of an image: the probabilities of both networks, side by side."""
    return torch.cat([base.softmax(-1), now.softmax(-1)], -1)


def merged(branches: nn.Module, base: Tensor, now: Tensor) -> Tensor:
    """Logits of two networks, weighed image by image."""
    shares = branches(both_named(base, now)).softmax(-1)
    return shares[:, :1] * base + shares[:, 1:] * now


def mean_of_units(network: Classifier, session: Session) -> Tensor:
    """Of each class of the session, (classes, d). Not made unit again: how long a row is says how fast it turns."""
    unit = F.normalize(seen(network, pixels(session)), dim=-1)
    return means_by_label(unit, session.labels - session.classes.start, len(session.classes))

"""OrCo: every class is sent to one of many fixed targets, and copies of the targets that are free keep their places.

Ahmed et al., OrCo: Towards Better Generalization via Orthogonality and Contrast for Few-Shot Class-Incremental
Learning, CVPR 2024. The network is frozen; in every session a projector goes on from where base training left it, with
the shots of all sessions so far and a few images of every base class. Base training: the objectives `orco` and then, as
a second stage, `orco_alignment`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.core.options import Amount, BelowOne, Bounds, Count, Whole
from fscil.data.session import Budget, Session, View
from fscil.methods.base import FirstStep, Method, dampened_sgd, descend, features, mean_features, seeded
from fscil.methods.copies import Copies, check_labels_stay
from fscil.objectives.orco import Pulls, alignment_loss, assigned_first, far_apart, make_projector, perturbed
from fscil.training.checkpoint import under

Lessons = Iterator[tuple[Tensor, Tensor, float]]  # batches: features of two views (2, n, d), labels (n,); a rate

FIRST_RATE = 3e-5  # of the first epoch of a session
BATCH = 128  # of the alignment here


@dataclass
class OrCo(Method):
    """Classes tied to fixed targets as far apart as they go; in sessions, copies of free targets keep their places."""

    name = "orco"
    title = "OrCo"
    paper = "Ahmed et al., CVPR 2024"
    needs = frozenset({"images", "backbone"})
    differences = (
        "every session is learned (the released script stops after the first); the last epoch of base training, not "
        "the best on the test set; new classes are assigned by their shots as they are, not shifted; where base "
        "training brought no targets, a projector is aligned on features of base images as they are"
    )

    exemplars: Count = 5  # images of every class that later sessions see again, the first ones
    epochs: Count = 100  # of a session
    batch: Count = 64
    lr: Amount = 0.1  # CUB-200: 0.05
    warmup_epochs: Whole = 10  # from almost nothing; then along a cosine to 0
    momentum: BelowOne = 0.9
    dampening: BelowOne = 0.9
    first_step: FirstStep = "released"  # of a session; "dampened": no heavier than the others
    weight_decay: Amount = 1e-4
    weight_new: Amount = 0.5  # of the cross-entropy of classes of all sessions
    weight_base: Amount = 0.0  # and of base classes (CUB-200: 0.6)
    perturbation: Amount = 1e-2  # of the copies of targets: 1 is a cube of side 1 (CIFAR-100: 9e-5)
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of all images that a session sees
    # Copies of every image that a session draws its pairs from, and so passes through the network; 0: new ones in every
    # epoch, as published.
    copies: Annotated[int, Bounds(low=0)] = 0
    # Where base training brought no targets: all classes that will ever come, and how the projector is aligned here.
    targets: Annotated[int, Bounds(low=2)] = 100
    target_steps: Count = 1000
    hidden: Count = 2048
    width: Count = 128
    base_steps: Whole = 1000
    base_lr: Amount = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labels_stay(self.augment, f"{self.prefix}augment")
        if self.copies == 1:
            raise InputError(f"{self.prefix}copies must be 0 or at least 2, as pairs are drawn from them; got 1.")

    def fit_base(self, session: Session) -> None:
        self.base_ = self.seen_ = len(session.classes)
        trained = under("projector.", session.extras)
        if trained and session.extras.get("assigned"):
            self.aligned_, self.targets_ = trained, session.extras["targets"].float()
        else:
            self._align_here(session, trained)
        self.projector_ = {name: value.clone() for name, value in self.aligned_.items()}

    def fit_novel(self, session: Session) -> None:
        old, self.seen_ = session.classes.start, session.classes.stop
        self._check_room()
        means = mean_features(project(self.aligned_, features(session).final), session)
        self.targets_ = torch.cat([self.targets_[:old], assigned_first(means, self.targets_[old:])])
        generator = self._generator(session.index, self.targets_.device)
        pulls = Pulls(self.seen_, self.base_, self.weight_new, self.weight_base)
        self.projector_ = self._descend(self.aligned_, self._lessons(session, generator), pulls, self.base_, generator)

    def memory(self) -> Budget:
        return Budget(per_class=self.exemplars)

    def keep(self, session: Session) -> Tensor:
        members = [torch.nonzero(session.labels == c).flatten()[: self.exemplars] for c in session.classes]
        return torch.cat(members)

    def scores(self, view: View) -> Tensor:
        return self._cosines(self.projector_, view)

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"projector as base training left it": lambda view: self._cosines(self.aligned_, view)}

    def _cosines(self, projector: Mapping[str, Tensor], view: View) -> Tensor:
        return F.normalize(project(projector, view.final), dim=-1) @ self.targets_[: self.seen_].T

    def _lessons(self, session: Session, generator: torch.Generator) -> Lessons:
        """Batches of all images of a session, epoch by epoch, with their rate."""
        assert session.images is not None
        images, labels = session.images, session.labels
        if session.memory is not None:
            images, labels = torch.cat([images, session.memory.images]), torch.cat([labels, session.memory.labels])
        pairs = self._pairs(session, images, generator)
        for epoch in range(self.epochs):
            rate, pair = self._rate(epoch), next(pairs)
            order = torch.rand(len(labels), generator=generator, device=labels.device).argsort()
            for rows in order.split(self.batch):
                yield pair[:, rows], labels[rows], rate

    def _pairs(self, session: Session, images: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """Features (2, n, d) of two copies of every image, others in every epoch."""
        copies, first = Copies(session, self.augment, self.seed_), 10_000 * session.index
        if not self.copies:
            while True:
                yield torch.stack([copies.anew(images, first), copies.anew(images, first + 1)])
                first += 2
        made = torch.stack([copies.anew(images, first + number) for number in range(self.copies)])
        while True:
            chosen = torch.rand(made.shape[:2], generator=generator, device=made.device).argsort(0)[:2]
            yield made.gather(0, chosen[..., None].expand(-1, -1, made.shape[2]))

    def _rate(self, epoch: int) -> float:
        """Of the epochs of a session, from 0: a line up to `lr`, which the first epoch after it has too; a cosine."""
        warm = self.warmup_epochs
        if epoch < warm:
            return FIRST_RATE + (self.lr - FIRST_RATE) * epoch / max(1, warm - 1)
        return self.lr * (1 + math.cos(math.pi * (epoch - warm) / (self.epochs - warm))) / 2

    def _descend(
        self, start: Mapping[str, Tensor], lessons: Lessons, pulls: Pulls, first_filler: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """The projector after these lessons."""
        learned = {name: value.clone().requires_grad_() for name, value in start.items()}
        optimizer = dampened_sgd(
            learned.values(), self.lr, self.momentum, self.dampening, self.first_step, self.weight_decay
        )

        def loss(pair: Tensor, labels: Tensor) -> Tensor:
            unit = F.normalize(project(learned, pair), dim=-1)
            fillers = perturbed(self.targets_, first_filler, len(labels), self.perturbation, generator)
            return alignment_loss(unit, labels, self.targets_, pulls, fillers)

        for pair, labels, rate in lessons:
            optimizer.param_groups[0]["lr"] = rate
            descend(partial(loss, pair, labels), optimizer, 1)
        return {name: value.detach() for name, value in learned.items()}

    def _align_here(self, session: Session, trained: Mapping[str, Tensor]) -> None:
        """As the second stage of base training does, on features of base images as they are."""
        final = features(session).final
        start = torch.Generator().manual_seed(self.seed_)
        with seeded(self.seed_, torch.device("cpu")):  # torch's layers take their start from the global generator
            fresh = make_projector(final.shape[1], self.hidden, self.width).state_dict()
        projector = trained or {name: value.to(final.device) for name, value in fresh.items()}
        self.targets_ = far_apart(self.targets, projector["2.weight"].shape[0], self.target_steps, start).to(final)
        self._check_room()
        self.targets_ = assigned_first(mean_features(project(projector, final), session), self.targets_)
        generator = self._generator(0, final.device)

        def lessons() -> Lessons:
            order = torch.empty(0, dtype=torch.long, device=final.device)
            for _ in range(self.base_steps):
                if not len(order):
                    order = torch.rand(len(final), generator=generator, device=final.device).argsort()
                rows, order = order[:BATCH], order[BATCH:]
                yield final[rows].expand(2, -1, -1), session.labels[rows], self.base_lr

        self.aligned_ = self._descend(projector, lessons(), Pulls(self.seen_), self.seen_, generator)

    def _check_room(self) -> None:
        if self.seen_ > len(self.targets_):
            raise InputError(
                f"OrCo reserved places for {len(self.targets_)} classes and is shown {self.seen_}; set "
                f"options.orco.targets (or train.objective_options.targets of its second stage, where the network has "
                f"them) to all classes that will ever come."
            )


def project(projector: Mapping[str, Tensor], x: Tensor) -> Tensor:
    hidden = F.relu(F.linear(x, projector["0.weight"], projector["0.bias"]))
    return F.linear(hidden, projector["2.weight"], projector["2.bias"])

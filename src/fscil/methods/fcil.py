"""FCIL-style continual infomax: a projector learns the shots and keeps what the frozen network and the past tell.

After Gu et al., Few-shot Continual Infomax Learning, ICCV 2023. A reconstruction, and an unofficial one: there is no
code, and only the abstract could be read. Known are the two aims, mutual information between levels of features and
between the relations of classes before and after a session; every formula below is ours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import Backbone
from fscil.backbones.extract import at_one_length
from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.core.options import Amount, BelowOne, Count, Positive, Whole
from fscil.data.session import Session, View
from fscil.methods.base import Method, class_means, descend, features, means_by_label, seeded
from fscil.methods.copies import check_labels_stay
from fscil.methods.module_state import at_rest
from fscil.methods.networks import augmented, tuning
from fscil.objectives.base import cosine_logits


@dataclass
class FCIL(Method):
    """A frozen network and a projector that learns in sessions, telling as much as it can of it and of its own past."""

    name = "fcil"
    title = "FCIL"
    paper = "Gu et al., ICCV 2023"
    mark = "reconstruction"
    needs = frozenset({"images", "backbone"})
    differences = "FCIL-style, unofficial: only the abstract could be read, so all formulas and settings are ours"

    steps: Whole = 100  # of a session
    lr: Amount = 0.01  # of the projector
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    weight_embedding: Amount = 1.0  # of what the features tell of those of the frozen network, at two levels
    weight_structure: Amount = 1.0  # of the relations between old classes
    temperature: Positive = 0.1  # of both
    hidden: Count = 128  # numbers in the projector
    width: Count = 128  # numbers in which two levels are compared
    critic_steps: Whole = 500  # in the base session: how levels are compared
    critic_batch: Count = 128
    critic_lr: Amount = 1e-3
    copies: Count = 8  # of every shot; each step sees two of them
    scale: Positive = 16.0  # logits are scale * cosine
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of the copies

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labels_stay(self.augment, f"{self.prefix}augment")

    def networks(self) -> dict[str, Callable[[], Any]]:
        return {
            "projector_": lambda: Projector(self.prototypes_.shape[1], self.hidden),
            "critic_": lambda: Critic([means.shape[1] for means in self.level_means_], self.width),
        }

    def fit_base(self, session: Session) -> None:
        device = session.labels.device
        seen = levels(_backbone(session), _images(session))
        self.prototypes_ = class_means(features(session).final, session)  # of the frozen network, one for each class
        self.level_means_ = [means_by_label(level, session.labels, len(session.classes)) for level in seen]
        with seeded(self.seed_ * 1_000_003, torch.device("cpu")):
            self.projector_ = at_rest(Projector(seen[-1].shape[1], self.hidden).to(device))
            self.critic_ = Critic([level.shape[1] for level in seen], self.width).to(device)
        generator = self._generator(0, device)

        def loss() -> Tensor:
            rows = torch.randint(len(session), (self.critic_batch,), generator=generator, device=device)
            return self._embedding_loss([level[rows] for level in seen], seen[-1][rows])

        with tuning(self.critic_) as parameters:
            descend(loss, torch.optim.Adam(parameters, self.critic_lr), self.critic_steps)

    def fit_novel(self, session: Session) -> None:
        device, count, old = session.labels.device, len(session), self.prototypes_
        generator = self._generator(session.index, device)
        shots, named = _images(session).repeat(self.copies, 1, 1, 1), session.labels.repeat(self.copies)
        seen = levels(_backbone(session), augmented(self.augment, shots, named, generator))
        before = self._rows(old)
        self.prototypes_ = torch.cat([old, class_means(features(session).final, session)])

        def loss() -> Tensor:
            chosen = torch.rand(self.copies, count, generator=generator, device=device).argsort(0)[:2]
            rows = (chosen * count + torch.arange(count, device=device)).flatten()
            labels = session.labels.repeat(len(chosen))
            projected, table = self.projector_(seen[-1][rows]), self._rows(self.prototypes_)
            learned = F.cross_entropy(cosine_logits(projected, table, self.scale), labels)
            kept = self._structure_loss(before, table[: len(old)])
            told = self._embedding_loss([level[rows] for level in seen], projected)
            return learned + self.weight_embedding * told + self.weight_structure * kept

        with tuning(self.projector_) as parameters:
            optimizer = torch.optim.SGD(parameters, self.lr, self.momentum, weight_decay=self.weight_decay)
            descend(loss, optimizer, self.steps)

    def scores(self, view: View) -> Tensor:
        with torch.no_grad():
            return cosine_logits(self.projector_(view.final), self._rows(self.prototypes_), self.scale)

    def _rows(self, prototypes: Tensor) -> Tensor:
        """Where classes are now: their means of the frozen network, through the projector."""
        return cast(Tensor, self.projector_(prototypes))

    def _embedding_loss(self, frozen: list[Tensor], now: Tensor) -> Tensor:
        """How little features (n, d) tell of those of the same images at each level of the frozen network."""
        told = self.critic_.of_features(now)
        others = [self.critic_.of_level(number, means) for number, means in enumerate(self.level_means_)]
        losses = [
            info_nce(told @ torch.cat([self.critic_.of_level(number, level), more]).T / self.temperature)
            for number, (level, more) in enumerate(zip(frozen, others, strict=True))
        ]
        return torch.stack(losses).mean()

    def _structure_loss(self, before: Tensor, now: Tensor) -> Tensor:
        return divergence(relations(before, self.temperature), relations(now, self.temperature))


class Projector(nn.Module):
    """Adds to features (n, d) what it learned, nothing at first."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        for parameter in self.layers[2].parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        x = at_one_length(x)
        return x + self.layers(x)


class Critic(nn.Module):
    """How alike a feature and one of a level are: the cosine of two linear maps."""

    def __init__(self, dims: list[int], width: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(dim, width, bias=False) for dim in dims)
        self.told = nn.Linear(dims[-1], width, bias=False)

    def of_level(self, number: int, x: Tensor) -> Tensor:
        return F.normalize(self.maps[number](at_one_length(x)), dim=-1)

    def of_features(self, x: Tensor) -> Tensor:
        return F.normalize(self.told(at_one_length(x)), dim=-1)


def info_nce(similar: Tensor) -> Tensor:
    """Of likenesses (n, n or more), each row's own in the diagonal; log n minus it bounds mutual information."""
    return F.cross_entropy(similar, torch.arange(len(similar), device=similar.device))


def relations(prototypes: Tensor, temperature: float) -> Tensor:
    """Of each class the logarithm of how much of it every other class has: (c, c - 1)."""
    unit, count = F.normalize(prototypes, dim=-1), len(prototypes)
    others = ~torch.eye(count, dtype=torch.bool, device=prototypes.device)
    return (unit @ unit.T / temperature)[others].view(count, count - 1).log_softmax(-1)


def divergence(before: Tensor, now: Tensor) -> Tensor:
    """KL(before || now) of logarithms (c, k), the mean over rows."""
    return (before.exp() * (before - now)).sum(-1).mean()


@torch.no_grad()
def levels(backbone: Backbone, images: Tensor, batch_size: int = 500) -> list[Tensor]:
    """Features (n, d) of images before the last stage, a mean over all places, and after it."""
    stage = backbone.stages - 1
    parts = []
    for batch in images.split(batch_size):
        inner = backbone.forward_until(batch, stage)
        parts.append((inner.mean(1) if inner.ndim == 3 else inner.mean((2, 3)), backbone.forward_from(inner, stage)))
    return [torch.cat(level).float() for level in zip(*parts, strict=True)]


def _backbone(session: Session) -> Backbone:
    if session.network is None:
        raise InputError("FCIL compares levels of a network, and there is none; run it with what base training left.")
    return cast(Backbone, session.network.backbone)


def _images(session: Session) -> Tensor:
    if session.images is None:
        raise InputError("FCIL learns from augmented copies of its shots, and there are no pixels; give it the images.")
    return session.images

"""C-FSCIL: every class is one wide, quasi-orthogonal vector; the layer that makes them is realigned in every session.

Hersche et al., Constrained Few-shot Class-incremental Learning, CVPR 2022. Memory is one mean feature per class, from
which the class vectors are made anew whenever the layer has changed. Base training: the objective `c-fscil`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD, AdamW

from fscil.backbones.extract import at_one_length
from fscil.core.options import Amount, Count, Whole
from fscil.data.episodes import ClassRows
from fscil.data.session import Session, View
from fscil.methods.base import Method, descend, features, mean_features
from fscil.objectives.c_fscil import episode_losses, squashed_cosines

NUDGING, ALIGNING = 100, {2: 10, 3: 50}  # steps; of aligning by mode


@dataclass
class CFSCIL(Method):
    """Wide quasi-orthogonal class vectors, made from one stored mean feature per class."""

    name = "c-fscil"
    title = "C-FSCIL"
    paper = "Hersche et al., CVPR 2022"
    differences = (
        "episodes inside base training's batches or on frozen features; means, not sums, for base and new classes alike"
    )

    # 1: the layer stays; 2: realigned to bipolar vectors; 3: realigned to vectors nudged apart.
    mode: Literal[1, 2, 3] = 2
    width: Count = 512  # of the class vectors, where base training brought no layer
    # Episodes of all base classes on their features, from base training's layer if there is one.
    meta_steps: Whole = 300
    meta_lr: Amount = 0.01  # of those episodes, with AdamW: one rate of SGD does not fit all networks
    shot: Count = 5  # images of a class that make its prototype in an episode
    query: Count = 10  # images of a class to tell apart in an episode
    lr: Amount = 0.01  # of realigning the layer
    nudge_lr: Amount = 0.1
    weight_decay: Amount = 5e-4

    def fit_base(self, session: Session) -> None:
        final = at_one_length(features(session).final)
        if "fc.weight" in session.extras:
            self.weight_, self.bias_ = session.extras["fc.weight"].float(), session.extras["fc.bias"].float()
        else:
            generator = torch.Generator().manual_seed(self.seed_)
            start = torch.rand(self.width, final.shape[1] + 1, generator=generator) * 2 - 1
            start = start.to(final) / final.shape[1] ** 0.5  # as nn.Linear
            self.weight_, self.bias_ = start[:, :-1].contiguous(), start[:, -1].contiguous()
        self._meta_train(final, session)
        self.memory_ = torch.empty(0, final.shape[1], device=final.device)
        self._remember(final, session)

    def fit_novel(self, session: Session) -> None:
        self._remember(at_one_length(features(session).final), session)

    def scores(self, view: View) -> Tensor:
        return squashed_cosines(self._embed(at_one_length(view.final)), self.vectors_).abs()

    def _embed(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_, self.bias_)

    def _remember(self, x: Tensor, session: Session) -> None:
        self.memory_ = torch.cat([self.memory_, mean_features(x, session)])
        vectors = self._embed(self.memory_)
        if self.mode > 1:
            self._align(vectors.sign() if self.mode == 2 else nudged(vectors, NUDGING, self.nudge_lr))
        self.vectors_ = self._embed(self.memory_)

    def _align(self, targets: Tensor) -> None:
        """Retrain the layer until it maps the remembered means to the targets."""
        target = targets.tanh()

        def loss() -> Tensor:
            return -F.cosine_similarity(self._embed(self.memory_).tanh(), target, dim=-1).mean()

        self._descend(loss, ALIGNING[self.mode], SGD, lr=self.lr, momentum=0.9, nesterov=True)

    def _meta_train(self, x: Tensor, session: Session) -> None:
        generator = torch.Generator(x.device).manual_seed(self.seed_)
        rows = ClassRows(session.labels, session.classes)
        classes = torch.arange(len(rows), device=x.device)
        targets = torch.eye(len(rows), device=x.device).repeat_interleave(self.query, 0)

        def loss() -> Tensor:
            drawn = rows.draw(classes, self.shot + self.query, generator)
            support, queries = x[drawn].split([self.shot, self.query], 1)
            with torch.no_grad():
                prototypes = self._embed(support.mean(1))
            return episode_losses(self._embed(queries.flatten(0, 1)), prototypes, targets).mean()

        self._descend(loss, self.meta_steps, AdamW, lr=self.meta_lr)

    def _descend(self, loss: Callable[[], Tensor], steps: int, kind: type[Any], **settings: Any) -> None:
        """Train the layer; the rate falls to a tenth after 3/7 and 6/7 of the steps, as in the official code."""
        self.weight_, self.bias_ = self.weight_.clone().requires_grad_(), self.bias_.clone().requires_grad_()
        optimizer = kind([self.weight_, self.bias_], weight_decay=self.weight_decay, **settings)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, max(1, round(steps * 3 / 7)), gamma=0.1)
        descend(loss, optimizer, steps, schedule)
        self.weight_, self.bias_ = self.weight_.detach(), self.bias_.detach()


def crowding(vectors: Tensor) -> Tensor:
    """Mean over pairs of e^(4c) + e^(-4c) - 2, c being the cosine of the squashed vectors: 0 for orthogonal ones."""
    first, second = torch.triu_indices(len(vectors), len(vectors), 1, device=vectors.device)
    if not len(first):
        return vectors.new_zeros(())
    cosines = squashed_cosines(vectors, vectors)[first, second]
    return ((4 * cosines).exp() + (-4 * cosines).exp() - 2).mean()


def nudging_loss(vectors: Tensor, start: Tensor) -> Tensor:
    return crowding(vectors) + (1 - F.cosine_similarity(vectors.tanh(), start.tanh(), dim=-1)).mean()


def nudged(start: Tensor, steps: int, lr: float) -> Tensor:
    """The vectors moved apart from each other, not far from where they were."""
    moved = start.clone().requires_grad_()
    optimizer = SGD([moved], lr=lr, momentum=0.9, nesterov=True)
    descend(lambda: nudging_loss(moved, start), optimizer, steps)
    return moved.detach()

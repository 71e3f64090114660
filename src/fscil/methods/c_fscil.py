"""C-FSCIL: every class is one wide, quasi-orthogonal vector; the layer that makes them is realigned in every session.

Hersche et al., Constrained Few-shot Class-incremental Learning, CVPR 2022. Memory is one mean feature per class, from which
the class vectors are made anew whenever the layer has changed. Base training with its loss is the objective `c-fscil`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.session import Session, View
from fscil.errors import InputError
from fscil.methods.base import Method, features
from fscil.methods.episodes import ClassRows, tokens
from fscil.objectives.c_fscil import episode_losses, squashed_cosines

NUDGING, ALIGNING = {1: 0, 2: 0, 3: 100}, {1: 0, 2: 10, 3: 50}  # steps by mode


@dataclass
class CFSCIL(Method):
    """Wide quasi-orthogonal class vectors, made from one stored mean feature per class."""

    name: ClassVar[str] = "c-fscil"
    title: ClassVar[str] = "C-FSCIL"
    paper: ClassVar[str] = "Hersche et al., CVPR 2022"

    mode: int = 2  # 1: the layer stays; 2: realigned to bipolar vectors; 3: realigned to vectors nudged apart
    width: int = 512  # of the class vectors, where base training brought no layer
    meta_steps: int = 300  # episodes on features of the base session, all base classes in each
    meta_lr: float = 0.1
    shot: int = 5  # images of a class that make its prototype in an episode
    query: int = 10  # images of a class to tell apart in an episode
    lr: float = 0.01  # of realigning the layer
    nudge_lr: float = 0.1
    weight_decay: float = 5e-4

    def start(self, *, seed: int, depth: int, device: torch.device) -> None:
        super().start(seed=seed, depth=depth, device=device)
        if self.mode not in NUDGING:
            raise InputError(f"options.c-fscil.mode must be 1, 2 or 3; got {self.mode}.")
        if min(self.width, self.shot, self.query) < 1 or self.meta_steps < 0:
            raise InputError("options.c-fscil: width, shot and query must be at least 1, meta_steps not negative.")

    def fit_base(self, session: Session) -> None:
        final = tokens(features(session).final)
        if "fc.weight" in session.extras:
            self.weight_, self.bias_ = session.extras["fc.weight"].float(), session.extras["fc.bias"].float()
        else:
            layer = torch.nn.utils.skip_init(torch.nn.Linear, final.shape[1], self.width)
            bound = final.shape[1] ** -0.5  # as nn.Linear, from a generator of our own
            generator = torch.Generator().manual_seed(self.seed_)
            for parameter in layer.parameters():
                torch.nn.init.uniform_(parameter, -bound, bound, generator=generator)
            self.weight_, self.bias_ = layer.weight.detach().to(final), layer.bias.detach().to(final)
        self._meta_train(final, session)
        self.memory_ = torch.empty(0, final.shape[1], device=final.device)
        self._remember(final, session)

    def fit_novel(self, session: Session) -> None:
        self._remember(tokens(features(session).final), session)

    def scores(self, view: View) -> Tensor:
        return squashed_cosines(self._embed(tokens(view.final)), self.vectors_).abs()

    def _embed(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_, self.bias_)

    def _remember(self, x: Tensor, session: Session) -> None:
        means = torch.stack([x[session.labels == c].mean(0) for c in session.classes])
        self.memory_ = torch.cat([self.memory_, means])
        vectors = self._embed(self.memory_)
        if self.mode > 1:
            self._align(vectors.sign() if self.mode == 2 else nudged(vectors, NUDGING[3], self.nudge_lr))
        self.vectors_ = self._embed(self.memory_)

    def _align(self, targets: Tensor) -> None:
        """Retrain the layer until it maps the remembered means to the targets."""
        target = targets.tanh()

        def loss() -> Tensor:
            return -F.cosine_similarity(self._embed(self.memory_).tanh(), target, dim=-1).mean()

        self._descend(loss, ALIGNING[self.mode], self.lr)

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

        self._descend(loss, self.meta_steps, self.meta_lr)

    def _descend(self, loss, steps: int, lr: float) -> None:  # type: ignore[no-untyped-def]
        self.weight_, self.bias_ = self.weight_.clone().requires_grad_(), self.bias_.clone().requires_grad_()
        optimizer = torch.optim.SGD(
            [self.weight_, self.bias_], lr=lr, momentum=0.9, nesterov=True, weight_decay=self.weight_decay
        )
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, max(1, round(steps * 3 / 7)), gamma=0.1)
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss().backward()
            optimizer.step()
            schedule.step()
        self.weight_, self.bias_ = self.weight_.detach(), self.bias_.detach()


def crowding(vectors: Tensor) -> Tensor:
    """Mean over pairs of e^(4c) + e^(-4c) - 2, with c the cosine of the squashed vectors: 0 where all are orthogonal."""
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
    optimizer = torch.optim.SGD([moved], lr=lr, momentum=0.9, nesterov=True)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        nudging_loss(moved, start).backward()
        optimizer.step()
    return moved.detach()

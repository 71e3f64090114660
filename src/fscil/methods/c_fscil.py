"""C-FSCIL: every class is one wide, quasi-orthogonal vector; the layer that makes them is realigned in every session.

Hersche et al., Constrained Few-shot Class-incremental Learning, CVPR 2022. Memory is one mean feature per class (of a
base class a sum of such means), from which the class vectors are made anew whenever the layer has changed. Base
training: the objectives `wide_cross_entropy` and then, as a second stage, `c-fscil`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD, AdamW

from fscil.backbones.extract import at_one_length
from fscil.core.options import Amount, Count, Whole
from fscil.data.episodes import ClassRows
from fscil.data.session import Session, View
from fscil.methods.base import Method, descend, features, mean_features, means_by_label
from fscil.objectives.c_fscil import episode_loss, squashed_cosines

NUDGING, ALIGNING = 100, {2: 10, 3: 50}  # steps; of aligning by mode
BATCH = 128  # images of which the released code takes one mean each


@dataclass
class CFSCIL(Method):
    """Wide quasi-orthogonal class vectors, made from one stored feature per class."""

    name = "c-fscil"
    title = "C-FSCIL"
    paper = "Hersche et al., CVPR 2022"
    differences = (
        "stored images as they are, not randomly cropped once; "
        "on a network without its layer, the layer alone is learned, from frozen features of one length"
    )

    # 1: the layer stays; 2: realigned to bipolar vectors; 3: realigned to vectors nudged apart.
    mode: Literal[1, 2, 3] = 2
    # Rows of base classes. sums: as released, of one mean for every 128 images, so 94 times as long as that of a new
    # class with 200 images of 60 classes, and tanh saturates; means: over all images, as of new classes.
    base_rows: Literal["sums", "means"] = "sums"
    base_images: Count = 200  # of a base class, in its sum
    lr: Amount = 0.01  # of realigning the layer, the same in all steps of all sessions
    weight_decay: Amount = 5e-4
    nudge_lr: Amount = 0.1
    # Where base training brought no layer: its width, and episodes of all base classes on frozen features.
    width: Count = 512
    meta_steps: Whole = 300
    meta_lr: Amount = 0.01  # with AdamW: one rate of SGD does not fit all networks
    shot: Count = 5  # images of a class that make its vector in an episode
    query: Count = 10  # images of a class to tell apart in an episode
    rows: Count = 100  # class vectors in an episode; those of classes to come are zero

    def fit_base(self, session: Session) -> None:
        final, extras = features(session).final, session.extras
        # A layer that was trained with the network knows how long its features are; one learned here is told.
        self.one_length_ = "embedding.weight" not in extras
        self.momenta_: list[Tensor] = []
        x = self._seen(final)
        if self.one_length_:
            generator = torch.Generator().manual_seed(self.seed_)
            start = torch.rand(self.width, x.shape[1] + 1, generator=generator) * 2 - 1
            start = start.to(x) / x.shape[1] ** 0.5  # as nn.Linear
            self.weight_, self.bias_ = start[:, :-1].contiguous(), start[:, -1].contiguous()
            self._meta_train(x, session)
        else:
            self.weight_, self.bias_ = extras["embedding.weight"].float(), extras["embedding.bias"].float()
        self.memory_ = torch.empty(0, x.shape[1], device=x.device)
        self._remember(mean_features(x, session) if self.base_rows == "means" else self._summed(x, session))

    def fit_novel(self, session: Session) -> None:
        self._remember(mean_features(self._seen(features(session).final), session))

    def scores(self, view: View) -> Tensor:
        return squashed_cosines(self._embed(self._seen(view.final)), self.vectors_).abs()

    def unrectifiable(self) -> str:
        return ""

    def class_vectors(self) -> Tensor:
        return self.memory_

    def _seen(self, final: Tensor) -> Tensor:
        return at_one_length(final) if self.one_length_ else final

    def _embed(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_, self.bias_)

    def _summed(self, x: Tensor, session: Session) -> Tensor:
        """As released: images of all classes in turn, cut into batches; every batch adds its mean of every class."""
        classes = len(session.classes)
        order = torch.arange(classes, device=x.device)
        drawn = ClassRows(session.labels, session.classes).draw(order, self.base_images, self._generator(1, x.device))
        places = torch.arange(drawn.numel(), device=x.device)
        batches = places // BATCH
        count = int(batches[-1]) + 1
        means = means_by_label(x[drawn.T.flatten()], batches * classes + places % classes, count * classes)
        return means.unflatten(0, (count, classes)).sum(0)

    def _remember(self, rows: Tensor) -> None:
        self.memory_ = torch.cat([self.memory_, rows])
        vectors = self._embed(self.memory_)
        if self.mode > 1:
            self._align(vectors.sign() if self.mode == 2 else nudged(vectors, NUDGING, self.nudge_lr))
        self.vectors_ = self._embed(self.memory_)

    def _align(self, targets: Tensor) -> None:
        """Retrain the layer so that it maps the memory to the targets; its momentum goes on from the last session."""
        layer, target = self._trainable(), targets.tanh()

        def loss() -> Tensor:
            return -F.cosine_similarity(F.linear(self.memory_, *layer).tanh(), target, dim=-1).mean()

        optimizer = SGD(layer, lr=self.lr, momentum=0.9, nesterov=True, weight_decay=self.weight_decay)
        for parameter, momentum in zip(layer, self.momenta_, strict=False):  # none before the base session
            optimizer.state[parameter]["momentum_buffer"] = momentum.clone()
        descend(loss, optimizer, ALIGNING[self.mode])
        self.momenta_ = [optimizer.state[parameter]["momentum_buffer"] for parameter in layer]
        self.weight_, self.bias_ = (parameter.detach() for parameter in layer)

    def _meta_train(self, x: Tensor, session: Session) -> None:
        generator = torch.Generator(x.device).manual_seed(self.seed_)
        rows = ClassRows(session.labels, session.classes)
        classes, layer = torch.arange(len(rows), device=x.device), self._trainable()

        def loss() -> Tensor:
            drawn = rows.draw(classes, self.shot + self.query, generator)
            supports, queries = x[drawn].split([self.shot, self.query], 1)
            return episode_loss(F.linear(queries, *layer), F.linear(supports, *layer).detach(), self.rows)

        optimizer = AdamW(layer, lr=self.meta_lr, weight_decay=self.weight_decay)
        # To a tenth after 3/7 and 6/7, as the released 70,000 episodes do after 30,000 and 60,000.
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, max(1, round(self.meta_steps * 3 / 7)), gamma=0.1)
        descend(loss, optimizer, self.meta_steps, schedule)
        self.weight_, self.bias_ = (parameter.detach() for parameter in layer)

    def _trainable(self) -> list[Tensor]:
        return [part.clone().requires_grad_() for part in (self.weight_, self.bias_)]


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

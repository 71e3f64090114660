"""DSN: every session adds a layer of nodes beside those of the sessions before, and gates say how much each counts.

Yang et al., Dynamic Support Network for Few-Shot Class Incremental Learning, TPAMI 2022. The network is frozen; old
classes are recalled by features drawn from their means and covariances. Base training: the objective `dsn`.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from fscil.backbones import CosineHead
from fscil.core.config import AugmentConfig
from fscil.core.options import Amount, BelowOne, Count, Positive, Share, Whole
from fscil.data.session import Session, View
from fscil.methods.base import FirstStep, Method, class_means, dampened_sgd, descend, features, means_by_label
from fscil.methods.copies import Copies, check_labels_stay
from fscil.methods.gaussians import cholesky_factors

Moments = tuple[Tensor, Tensor]  # means (classes, d), and covariances or their factors (classes, d, d)

CHUNK = 500  # base images that are changed at once
JITTER = 1e-6  # on the diagonal of a covariance, as a share of the mean variance


@dataclass
class Layers:
    """What lies behind the network: a first layer with the rows of base classes; nodes, gates and rows of sessions."""

    blend: float  # how much of the first layer the nodes of a session are added to
    first: Tensor  # (nodes, d)
    rows: list[Tensor]  # (classes, nodes) of base classes, then of those of each session
    nodes: list[Tensor]  # (nodes, d) of each session
    gates: list[Tensor]  # (nodes,) of each session, or (n, nodes) where images have gates of their own

    def cosines(self, x: Tensor) -> Tensor:
        """Of features (n, d) to all classes."""
        unit = F.normalize(x @ self.first.T, dim=-1)
        found = [cosines(unit, self.rows[0])]
        for nodes, gates, rows in zip(self.nodes, self.gates, self.rows[1:], strict=True):
            found.append(cosines(self.blend * unit + cosines(x, nodes) * gates, rows))
        return torch.cat(found, 1)

    def learning(self, x: Tensor, new: Tensor, sharpness: float) -> tuple[Tensor, Tensor | None]:
        """The same while the last session learns, and its gates now: those that all new features (mask) ask for.

        Features of old classes pass the gates of the step before. Without a new feature there are no others.
        """
        if not new.any():
            return self.cosines(x), None
        gates = torch.sigmoid(sharpness * cosines(x[new], self.nodes[-1]).mean(0))
        own = torch.where(new[:, None], gates, self.gates[-1])
        return replace(self, gates=[*self.gates[:-1], own]).cosines(x), gates


@dataclass(frozen=True)
class Lesson:
    """Features that a session learns from, until it sees its shots in another way."""

    x: Tensor  # (n, d)
    labels: Tensor
    shots: int  # the last ones; the others are drawn


@dataclass
class DSN(Method):
    """Nodes of every session, softly gated, beside those before; old classes are drawn from their Gaussians."""

    name = "dsn"
    title = "DSN"
    paper = "Yang et al., TPAMI 2022"
    needs = frozenset({"images", "backbone"})
    differences = (
        "the last epoch of base training and of every session, not the best on the test set; where base training "
        "brought no layer, the first one changes nothing and base rows are those of a cosine head, or class means"
    )

    epochs: Count = 70  # of a session (miniImageNet: 50, CUB-200: 35)
    batch: Count = 256  # CUB-200: 128
    lr: Amount = 0.1  # CUB-200: 0.05
    momentum: BelowOne = 0.9
    dampening: BelowOne = 0.5
    first_step: FirstStep = "released"  # of a session; "dampened": no heavier than the others
    trains: Literal["session", "all"] = "session"  # nodes and rows of the session alone, or all layers (CUB-200)
    blend: Amount = 0.2  # gamma
    samples: Whole = 5  # features drawn of an old class (miniImageNet, CUB-200: 4)
    most: Whole = 5  # of one that came close to new classes (miniImageNet: 4)
    new_samples: Whole = 5  # of a new class, besides its shots (miniImageNet, CUB-200: 4)
    rivals: Whole = 5  # old classes that may have come close to a new one (miniImageNet: 4)
    refresh: Count = 2  # epochs after which shots are augmented and features drawn anew
    inertia: Share = 0.8  # of mean and covariance of a new class when its shots are seen in another way
    weight_gates: Amount = 0.1  # of how far open gates are on average, beyond what is allowed
    weight_distilled: Amount = 1.0  # of what old layers said of old classes; constant where these stay
    temperature: Positive = 0.5  # of that
    scale: Positive = 16.0  # of cosines
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of base images and shots

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labels_stay(self.augment, f"{self.prefix}augment")

    def fit_base(self, session: Session) -> None:
        copies = Copies(session, self.augment, self.seed_)
        assert session.images is not None
        final, extras, head = features(session).final, session.extras, getattr(session.network, "head", None)
        self.first_ = torch.eye(final.shape[1], device=final.device)
        if "first.weight" in extras:
            self.first_, rows = extras["first.weight"].float(), extras["classes.weight"].float()
        elif isinstance(head, CosineHead) and session.head is not None:
            rows = session.head
        else:
            rows = class_means(final, session)
        self.base_ = len(session.classes)
        self.rows_, self.nodes_, self.gates_ = [rows[: self.base_].clone()], list[Tensor](), list[Tensor]()
        self.allowed_ = torch.zeros((), device=final.device)  # how far open gates may be
        seen = [copies.anew(part, number) for number, part in enumerate(session.images.split(CHUNK))]
        self.means_, self.covariances_ = moments(torch.cat(seen), session.labels, self.base_)

    def fit_novel(self, session: Session) -> None:
        assert session.images is not None
        images, own, count = session.images, session.labels - session.classes.start, len(session.classes)
        copies, first = Copies(session, self.augment, self.seed_), 10_000 * session.index
        random = self._generator(session.index, own.device)
        held = moments(copies.anew(images, first), own, count)  # a running average
        factors = sampling_factors(self.covariances_)
        before = self._layers()
        layers, allowed = self._grown(before, held[0]), self.allowed_.clone()
        optimizer = self._optimizer(layers, allowed)
        calls = torch.zeros(session.classes.start, dtype=torch.long, device=own.device)  # for more of an old class
        for epoch in range(self.epochs):
            if epoch % self.refresh == 0:
                x = copies.anew(images, first + 1 + epoch)
                means, spreads = moments(x, own, count)
                held = self._moved(held, (means, spreads))
                lesson, calls = self._lesson(x, session.labels, held, factors, calls, random), torch.zeros_like(calls)
            found = self._learn(layers, before, allowed, lesson, optimizer, epoch, random)[-lesson.shots :]
            spreads = borrowed(spreads, nearness(found, session.labels, self.base_, count), self.covariances_)
            held = self._moved(held, (means, spreads))
            calls = calls + self._called(nearness(found, session.labels, session.classes.start, count))
        means, spreads = self._moved(held, (means, spreads))  # once more, as theirs does behind a session
        self.means_, self.covariances_ = torch.cat([self.means_, means]), torch.cat([self.covariances_, spreads])
        self._keep_layers(layers, allowed)

    def scores(self, view: View) -> Tensor:
        return self._layers().cosines(view.final)

    def _layers(self) -> Layers:
        return Layers(self.blend, self.first_, list(self.rows_), list(self.nodes_), list(self.gates_))

    def _keep_layers(self, layers: Layers, allowed: Tensor) -> None:
        self.first_, self.allowed_ = layers.first.detach(), allowed.detach()
        self.rows_, self.nodes_ = [part.detach() for part in layers.rows], [part.detach() for part in layers.nodes]
        self.gates_ = layers.gates

    def _grown(self, old: Layers, means: Tensor) -> Layers:
        """With the layers of a session, which start as the first one and at the class means. Copies, to learn."""
        rows = [*(part.clone() for part in old.rows), F.normalize(means @ old.first.T, dim=-1)]
        nodes = [*(part.clone() for part in old.nodes), old.first.clone()]
        return Layers(old.blend, old.first.clone(), rows, nodes, [*old.gates, torch.zeros_like(old.first[:, 0])])

    def _optimizer(self, layers: Layers, allowed: Tensor) -> Optimizer:
        learned = [layers.nodes[-1], layers.rows[-1]]
        if self.trains == "all":
            learned = [layers.first, *layers.nodes, *layers.rows, allowed]
        for part in learned:
            part.requires_grad_()
        return dampened_sgd(learned, self.lr, self.momentum, self.dampening, self.first_step)

    def _lesson(
        self, x: Tensor, labels: Tensor, held: Moments, factors: Tensor, calls: Tensor, random: torch.Generator
    ) -> Lesson:
        """Drawn features of old classes and of new ones, then those of the shots."""
        old = len(self.means_)
        counts = (self.samples + calls).clamp(max=self.most)
        drawn, named = draw((self.means_, factors), counts, random)
        fresh = torch.full_like(counts[:1], self.new_samples).expand(len(held[0]))
        new, new_named = draw((held[0], sampling_factors(held[1])), fresh, random)
        return Lesson(torch.cat([drawn, new, x]), torch.cat([named, new_named + old, labels]), len(x))

    def _learn(
        self,
        layers: Layers,
        before: Layers,
        allowed: Tensor,
        lesson: Lesson,
        optimizer: Optimizer,
        epoch: int,
        random: torch.Generator,
    ) -> Tensor:
        """Once over all features, in batches; the cosines (n, classes) that they had on the way."""
        found = lesson.x.new_zeros(len(lesson.x), sum(map(len, layers.rows)))
        order = torch.rand(len(lesson.x), generator=random, device=lesson.x.device).argsort()
        for chosen in order.split(self.batch):
            x, labels = lesson.x[chosen], lesson.labels[chosen]
            answers, gates = layers.learning(x, labels >= len(self.means_), 1.0 + epoch)
            found[chosen] = answers.detach()
            loss = partial(self._loss, answers, labels, before.cosines(x), gates, allowed)
            descend(loss, optimizer, 1)
            if gates is not None:
                layers.gates[-1] = gates.detach()
        return found

    def _loss(self, answers: Tensor, labels: Tensor, said: Tensor, gates: Tensor | None, allowed: Tensor) -> Tensor:
        """Of cosines of all classes, and of those (`said`) of old classes by the layers before the session."""
        loss = F.cross_entropy(self.scale * answers, labels)
        if self.trains == "all":
            sharp = self.scale / self.temperature
            wanted = (sharp * said).softmax(1)
            loss = loss + self.weight_distilled * F.cross_entropy(sharp * answers[:, : said.shape[1]], wanted)
        if gates is not None:
            loss = loss + self.weight_gates * F.relu(gates.mean() - allowed)
        return loss

    def _moved(self, held: Moments, seen: Moments) -> Moments:
        return (torch.lerp(seen[0], held[0], self.inertia), torch.lerp(seen[1], held[1], self.inertia))

    def _called(self, near: Tensor) -> Tensor:
        """How often each old class came closer to a new one (its row) than that class itself, the last column."""
        old = near.shape[1] - 1
        top = near[:, :old].topk(min(self.rivals, old))
        closer = top.indices[top.values >= near[:, old:]]
        return torch.bincount(closer, minlength=old)


def cosines(x: Tensor, rows: Tensor) -> Tensor:
    return F.normalize(x, dim=-1) @ F.normalize(rows, dim=-1).T


def nearness(found: Tensor, labels: Tensor, others: int, count: int) -> Tensor:
    """(count, others + 1): how near the shots of each new class are to the first classes and, last, to their own.

    Of cosines (n, classes): the mean of their softmax. They are not scaled, so it is never far from even.
    """
    own = found.gather(1, labels[:, None])
    shares = torch.cat([found[:, :others], own], 1).softmax(1)
    return means_by_label(shares, labels - (found.shape[1] - count), count)


def borrowed(spreads: Tensor, near: Tensor, covariances: Tensor) -> Tensor:
    """Covariances of new classes mixed with those of base classes, by how near they are (rows that sum to 1)."""
    base = near.shape[1] - 1
    return near[:, base:, None] * spreads + torch.einsum("nb,bij->nij", near[:, :base], covariances[:base])


def moments(x: Tensor, labels: Tensor, count: int) -> Moments:
    """Means (count, d) and covariances (count, d, d) of classes; zero where a class has one feature."""
    means, spreads = means_by_label(x, labels, count), x.new_zeros(count, x.shape[1], x.shape[1])
    for label, mean in enumerate(means):
        apart = x[labels == label] - mean
        spreads[label] = apart.T @ apart / max(1, len(apart) - 1)
    return means, spreads


def sampling_factors(covariances: Tensor) -> Tensor:
    variance = float(covariances.diagonal(dim1=-2, dim2=-1).mean())
    return cholesky_factors(covariances, max(JITTER * variance, 1e-12))


def draw(gaussians: Moments, counts: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Samples (n, d) of Gaussians by their means and factors, so many of each, and whose they are."""
    means, factors = gaussians
    most = int(counts.max())
    noise = torch.randn(len(means), most, means.shape[1], generator=random, device=means.device)
    drawn = noise @ factors.mT + means[:, None]
    wanted = torch.arange(most, device=means.device) < counts[:, None]
    return drawn[wanted], torch.arange(len(means), device=means.device).repeat_interleave(counts)

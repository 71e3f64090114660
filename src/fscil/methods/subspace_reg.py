"""Subspace regularizers: a linear classifier whose new rows are pulled towards the span of the rows of base classes.

Akyürek et al., Subspace Regularizers for Few-Shot Class Incremental Learning, ICLR 2022. The network is frozen; a
session trains all rows on augmented copies of its shots and, in the authors' setting '+M', of one image of every
earlier class.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD, Optimizer

from fscil.backbones import CosineHead, LinearHead
from fscil.backbones.extract import at_one_length
from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.core.options import Amount, BelowOne, Count, Positive
from fscil.data.episodes import ClassRows
from fscil.data.session import Budget, Session, View
from fscil.methods.base import Method, class_means, features
from fscil.methods.copies import Copies, check_labels_stay


@dataclass
class SubspaceRegularizer(Method):
    """A linear classifier whose new rows are pulled towards the span of the base rows, and whose old rows stay near."""

    name = "subspace-reg"
    title = "Subspace Reg."
    paper = "Akyürek et al., ICLR 2022"
    needs = frozenset({"images", "backbone"})
    differences = (
        "the network stays as it is in every step (theirs moves its batch statistics once a session); no variants that "
        "need class names; on networks without a linear head, rows and features are brought to the head's cosines"
    )

    weight_base: Amount = 0.2  # lambda_b, of the distance of base rows from where they were
    weight_old: Amount = 0.1  # lambda_n, of the distance of later rows from where their own session left them
    pull: Amount = 1.0  # gamma, of the squared distance of new rows from the span of the base rows
    replay: bool = True  # one image of every class is kept, whose copies later sessions see again: '+M'
    copies: Count = 5  # augmented copies of every shot; of an image of a base class there is one
    # Of those copies; nothing is changed unless it says what the data can bear (the authors: shifts and mirror images).
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    lr: Amount = 0.002
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    steps: Count = 1000  # of a session, at most; each sees everything
    settled: Count = 10  # steps in a row that change the loss by less than `tolerance` end a session
    tolerance: Amount = 1e-4
    # What base classes start as: "head", trained rows; "means", class means; "auto", as "head" where there are rows.
    rows: Literal["auto", "head", "means"] = "auto"
    scale: Positive = 16.0  # of the cosines to class means, where base classes start as those

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labels_stay(self.augment, f"{self.prefix}augment")

    def fit_base(self, session: Session) -> None:
        head = getattr(session.network, "head", None)
        trained = isinstance(head, LinearHead | CosineHead) and session.head is not None
        if self.rows == "head" and not trained:
            raise InputError(f"{self.prefix}rows=head needs a network with a linear or a cosine head.")
        # Only a linear head has something to say about the length of features.
        self.one_length_ = self.rows == "means" or not isinstance(head, LinearHead)
        if trained and self.rows != "means":
            self.rows_ = session.head.clone()  # type: ignore[union-attr]
            scale = getattr(head, "scale", 1.0)
        else:
            self.rows_, scale = class_means(features(session).final, session), self.scale
        if self.one_length_:  # products with features of length sqrt(d) are then scale * cosine
            self.rows_ = F.normalize(self.rows_, dim=-1) * (scale / math.sqrt(self.rows_.shape[1]))
        self.base_ = len(session.classes)
        self.kept_rows_ = self.rows_.clone()  # what rows were when the session that brought them ended
        self.basis_ = torch.linalg.qr(self.rows_.T).Q

    def fit_novel(self, session: Session) -> None:
        shots, labels, old, old_labels = self._lessons(session)
        rows = torch.cat([self.rows_, self._fresh_rows(session)]).requires_grad_()
        optimizer = SGD([rows], lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)

        def loss() -> Tensor:
            return self._loss(rows, shots, labels, old, old_labels)

        settle(loss, optimizer, self.steps, self.settled, self.tolerance)
        self.rows_ = rows.detach()
        self.kept_rows_ = torch.cat([self.kept_rows_, self.rows_[len(self.kept_rows_) :]])

    def memory(self) -> Budget | None:
        return Budget(per_class=1) if self.replay else None

    def keep(self, session: Session) -> Tensor:
        """One image of each class, whichever."""
        generator, device = self._generator(1_000 + session.index, session.labels.device), session.labels.device
        of_class = ClassRows(session.labels, session.classes)
        return of_class.draw(torch.arange(len(of_class), device=device), 1, generator).flatten()

    def scores(self, view: View) -> Tensor:
        return self._seen(view.final) @ self.rows_.T

    def _lessons(self, session: Session) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features and labels of the session's copies with those of base classes, and of later classes' copies."""
        assert session.images is not None
        copies, count = Copies(session, self.augment, self.seed_), self.copies
        shots, labels = copies.lasting(session.images, count), session.labels.repeat(count)
        if session.memory is None:
            return self._seen(shots), labels, shots[:0], labels[:0]
        images, names = session.memory.images, session.memory.labels
        base = names < self.base_
        shots, labels = torch.cat([shots, copies.lasting(images[base], 1)]), torch.cat([labels, names[base]])
        old = copies.lasting(images[~base], count)
        return self._seen(shots), labels, self._seen(old), names[~base].repeat(count)

    def _loss(self, rows: Tensor, shots: Tensor, labels: Tensor, old_shots: Tensor, old_labels: Tensor) -> Tensor:
        """Of a session, whose classes have the rows behind those that are kept."""
        old, base = len(self.kept_rows_), self.base_
        loss = F.cross_entropy(shots @ rows.T, labels)
        if len(old_shots):
            loss = loss + F.cross_entropy(old_shots @ rows.T, old_labels)
        moved, new = rows[:old] - self.kept_rows_, rows[old:]
        loss = loss + self.weight_base * moved[:base].norm() + self.weight_old * moved[base:].norm()
        return loss + self.pull * (new - new @ self.basis_ @ self.basis_.T).square().sum()

    def _fresh_rows(self, session: Session) -> Tensor:
        """As torch starts a linear layer."""
        count, width = len(session.classes), self.rows_.shape[1]
        drawn = torch.rand(count, width, generator=self._generator(session.index, torch.device("cpu")))
        return ((2 * drawn - 1) / math.sqrt(width)).to(self.rows_)

    def _seen(self, final: Tensor) -> Tensor:
        return at_one_length(final) if self.one_length_ else final


def settle(loss: Callable[[], Tensor], optimizer: Optimizer, steps: int, settled: int, tolerance: float) -> int:
    """Updates until `settled` of them in a row changed the loss by less than the tolerance; how many there were."""
    before, calm = math.inf, 0
    for step in range(1, steps + 1):
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        optimizer.step()
        now = float(value.detach())
        calm = calm + 1 if abs(now - before) < tolerance else 0
        before = now
        if calm == settled:
            return step
    return steps

"""Whitened layers: class means of several layers' features at once, freed of the spread inside base classes.

Ours, and nothing is trained for it. Layers before the last still know what new classes differ in; whitening takes out
what only tells images of one class apart; and a constant in favour of new classes makes up for what they lack: the
network pulled the base classes together, and a mean of five images lies farther from its class than one of hundreds.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Amount, Count, Positive
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, class_means, features
from fscil.methods.layer_stack import levelled
from fscil.methods.whitening import within_class_whitening


@dataclass
class Whitened(ClassMeans):
    name = "whitened"
    title = "Whitened layers"
    paper = "this toolkit, 2026"
    needs = frozenset({"layers"})

    layers: tuple[Count, ...] = ()  # blocks (1-based) whose features are taken together; empty: from 7/12 to 10/12
    shrinkage: Positive = 2.0  # added to the covariance that whitens, in mean variances
    novel_bonus: Amount = 0.0  # added to the cosine of every novel class; choose it with `fscil tune`

    def blocks(self, depth: int) -> tuple[int, ...]:
        return self.layers or tuple(range(max(1, round(depth * 7 / 12)), round(depth * 10 / 12) + 1))

    def fit_base(self, session: Session) -> None:
        self.centre_, self.whitening_ = within_class_whitening(
            self._together(features(session)), session.labels, self.shrinkage
        )
        self.base_classes_ = len(session.classes)
        super().fit_base(session)

    def means(self, session: Session) -> Tensor:
        return class_means(self._whiten(features(session)), session)

    def scores(self, view: View) -> Tensor:
        cosines = F.normalize(self._whiten(view), dim=-1) @ self.prototypes_.T
        cosines[:, self.base_classes_ :] += self.novel_bonus
        return cosines

    def unrectifiable(self) -> str:
        return "it compares layers, and no final features"

    def _whiten(self, view: View) -> Tensor:
        return (self._together(view) - self.centre_) @ self.whitening_

    def _together(self, view: View) -> Tensor:
        return torch.cat(levelled([view.layers[block] for block in self.blocks(self.depth_)]), 1)

"""SAVC: one prototype per class and fixed transform of its images; an image is scored in every transform.

Song et al., Learning with Fantasy: Semantic-Aware Virtual Contrastive Constraint for FSCIL, CVPR 2023.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.fantasy import FANTASIES, Transform
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, features, mean_features


@dataclass
class SAVC(ClassMeans):
    name = "savc"
    title = "SAVC"
    paper = "Song et al., CVPR 2023"
    differences = "the last epoch is kept, not the best on the test set; crops are not cut at whole pixels"

    # Transforms of every class; 0: as many as base training had, 2 where it had none.
    fantasies: Literal[0, 1, 2, 4, 12] = 0

    def transforms(self, classes: int, extras: Mapping[str, Tensor], *, base: bool) -> tuple[Transform, ...]:
        rows = extras.get("fantasy.weight")
        trained = 2 if rows is None else 1 + len(rows) // classes
        return FANTASIES[self.fantasies or trained][1:]

    def fit_base(self, session: Session) -> None:
        # Features alone have no transforms, and the plain class means remain.
        self.count_ = self.fantasies or 1 + len(features(session).turned)
        super().fit_base(session)

    def means(self, session: Session) -> Tensor:
        """(transforms, classes, d): of features as they are, lengths and all, as the authors take them."""
        means = [mean_features(x, session) for x in self._all(features(session))]
        return F.normalize(torch.stack(means), dim=-1)

    def scores(self, view: View) -> Tensor:
        return self._cosines(self._all(view)).mean(0)

    def class_vectors(self) -> Tensor:
        return self.prototypes_[0]

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"without transforms": lambda view: self._cosines(view.final[None])[0]}

    def _cosines(self, views: Tensor) -> Tensor:
        """(transforms, n, classes seen)."""
        return F.normalize(views, dim=-1) @ self.prototypes_[: len(views)].mT

    def _all(self, view: View) -> Tensor:
        return view.in_transforms(FANTASIES[self.count_][1:])

"""SAVC: one prototype per class and fixed transform of its images; an image is scored in every transform.

Song et al., Learning with Fantasy: Semantic-Aware Virtual Contrastive Constraint for FSCIL, CVPR 2023.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.fantasy import FANTASIES
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, class_means, features
from fscil.methods.fantasy_views import FantasyViews


@dataclass
class SAVC(ClassMeans):
    name = "savc"
    title = "SAVC"
    paper = "Song et al., CVPR 2023"
    needs = frozenset({"images", "backbone"})
    differences = (
        "the last epoch is kept, not the best on the test set; one small crop and one random transform a step, not all"
    )

    # Transforms of every class; 0: as many as base training had, 2 where it had none.
    fantasies: Literal[0, 1, 2, 4, 12] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._views = FantasyViews()

    def fit_base(self, session: Session) -> None:
        self.count_ = self._count(session)
        super().fit_base(session)

    def means(self, session: Session) -> Tensor:
        """(transforms, classes, d)."""
        self._views.network = session.network
        views = self._views(features(session), session.images, FANTASIES[self.count_])
        return torch.stack([class_means(x, session) for x in views])

    def scores(self, view: View) -> Tensor:
        return self._cosines(self._views(view, view.images, FANTASIES[self.count_], keep=True)).mean(0)

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"without transforms": lambda view: self._cosines(view.final[None])[0]}

    def _cosines(self, views: Tensor) -> Tensor:
        """(transforms, n, classes seen)."""
        return F.normalize(views, dim=-1) @ self.prototypes_[: len(views)].mT

    def _count(self, session: Session) -> int:
        if self.fantasies:
            return self.fantasies
        if session.network is None or session.images is None:
            return 1  # features alone: the plain class means
        rows = session.extras.get("fantasy.weight")
        return 2 if rows is None else 1 + len(rows) // len(session.classes)

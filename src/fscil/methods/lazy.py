"""Lazy: the corner case of section 3.3 as a method. What every method must beat in gAcc, and often does not in aAcc."""

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from fscil.data.session import Session, View
from fscil.methods.base import Method, class_means, features

_NEVER = -2.0  # below every cosine


@dataclass
class Lazy(Method):
    """Freeze and forget: the base classifier answers, a new class is never predicted."""

    name = "lazy"
    title = "Lazy"
    paper = "Tang et al., ECCV 2024 (corner case)"
    differences = "the paper's is a table of made-up accuracies; here the trained network gives them"

    # What classifies: the trained head, where its weights compare with features, or class means.
    classifier: Literal["head", "means"] = "head"

    def fit_base(self, session: Session) -> None:
        # A head in a space of its own (NC-FSCIL's frame) has no weights that features could be compared with.
        if self.classifier == "head" and session.head is not None:
            self.weights_ = F.normalize(session.head.float(), dim=-1)
        else:
            self.weights_ = class_means(features(session).final, session)
        self.seen_ = session.classes.stop

    def fit_novel(self, session: Session) -> None:
        self.seen_ = session.classes.stop  # a column to be wrong in, and nothing else

    def scores(self, view: View) -> Tensor:
        cosines = F.normalize(view.final, dim=-1) @ self.weights_.T
        return F.pad(cosines, (0, self.seen_ - cosines.shape[1]), value=_NEVER)

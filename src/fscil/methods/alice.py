"""ALICE: cosine to class means, with as few images behind the mean of a base class as behind that of a new one.

Peng et al., Few-Shot Class-Incremental Learning from an Open-Set Perspective, ECCV 2022. What makes the difference is
base training (`fscil.objectives.alice`); afterwards nothing is trained.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Whole
from fscil.data.session import Session, View
from fscil.methods.base import Method, features, mean_features
from fscil.methods.rows import appended


@dataclass
class ALICE(Method):
    name = "alice"
    title = "ALICE"
    paper = "Peng et al., ECCV 2022"
    differences = (
        "the last epoch is kept, not the best on the test set; blends of one class are masked, not left out; "
        "input normalised by the base images"
    )

    balanced: Whole = 5  # images behind the mean of a base class; 0: all
    # Those nearest to the mean of all, or as the authors' code finds them.
    selection: Literal["nearest", "authors"] = "nearest"

    def fit_base(self, session: Session) -> None:
        x = features(session).final
        self.all_means_ = F.normalize(mean_features(x, session), dim=-1)
        self.means_ = self.all_means_
        if self.balanced:
            chosen = []
            for c in session.classes:
                members = x[session.labels == c]
                distances = 1 - F.normalize(members, dim=-1) @ self.all_means_[c]
                picked = few_nearest(distances, self.balanced, in_order=self.selection == "authors")
                chosen.append(members[picked].mean(0))
            self.means_ = F.normalize(torch.stack(chosen), dim=-1)

    def fit_novel(self, session: Session) -> None:
        new = F.normalize(mean_features(features(session).final, session), dim=-1)
        self.means_ = appended(self.means_, new)
        self.all_means_ = appended(self.all_means_, new)

    def scores(self, view: View) -> Tensor:
        return F.normalize(view.final, dim=-1) @ self.means_.T

    def unrectifiable(self) -> str:
        return ""

    def class_vectors(self) -> Tensor:
        return self.means_

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"means of all base images": lambda view: F.normalize(view.final, dim=-1) @ self.all_means_.T}


def few_nearest(distances: Tensor, count: int, in_order: bool) -> Tensor:
    """Where the `count` smallest distances are; `in_order`, what the authors' single pass over the images finds.

    That pass starts with the first images; each later one takes the first place whose distance is larger, which need
    not be the place of the farthest.
    """
    if not in_order or len(distances) <= count:
        return distances.topk(min(count, len(distances)), largest=False).indices
    values = distances.tolist()
    places = list(range(count))
    for later in range(count, len(values)):
        for place, holder in enumerate(places):
            if values[holder] > values[later]:
                places[place] = later
                break
    return torch.tensor(places, device=distances.device)

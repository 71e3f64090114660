"""Random projections with a ridge classifier on them, after RanPAC: a fixed random layer, and a Gram matrix that grows.

McDonnell et al., RanPAC: Random Projections and Pre-trained Models for Continual Learning, NeurIPS 2023. What adapts
the network to the first session there is base training here.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Count
from fscil.data.session import Session
from fscil.methods.base import features
from fscil.methods.ridge import RidgeClassifier


@dataclass
class RanPAC(RidgeClassifier):
    name = "ranpac"
    title = "RanPAC-style projections"
    paper = "after McDonnell et al., NeurIPS 2023"
    mark = "reference"
    differences = (
        "the network is that of base training, without adapters; the ridge is chosen once, on the base session, not on "
        "every session's own images; sums in double precision"
    )
    intercept = False

    balance: bool = False  # every image counts alike, as released
    width: Count = 10_000  # of the random layer

    def fit_base(self, session: Session) -> None:
        x = features(session).final
        drawn = torch.randn(x.shape[1], self.width, generator=self._generator(0, torch.device("cpu")))
        self.projection_ = drawn.to(x).double()
        super().fit_base(session)

    def inputs(self, x: Tensor) -> Tensor:
        return F.relu(x @ self.projection_)

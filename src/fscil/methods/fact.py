"""FACT: class means, and the vote of virtual prototypes that base training kept for classes to come.

Zhou et al., Forward Compatible Few-Shot Class-Incremental Learning, CVPR 2022. Base training: the objective `fact`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Amount, Count, Positive, Share, Whole
from fscil.data.augment import symmetric_beta
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, descend, features, mean_features
from fscil.objectives.fact import mixture_losses


@dataclass
class FACT(ClassMeans):
    """Class means and the vote of virtual prototypes that base training reserved for classes to come."""

    name = "fact"
    title = "FACT"
    paper = "Zhou et al., CVPR 2022"
    differences = (
        "the last epoch is kept, not the best on the test set; class means in the base session too; virtual prototypes "
        "are learned on frozen features where base training brought none"
    )

    eta: Share = 0.1  # share of the virtual prototypes' vote; 0: class means alone
    top: Count = 40  # virtual prototypes, the nearest ones, that vote
    scale: Positive = 16.0  # of the cosines to class means, before the softmax
    # What has unit length in the vote: a class, or, as released, a feature over the classes.
    normalise: Literal["class", "feature"] = "class"
    virtual: Count = 40  # virtual prototypes to learn here, where base training brought none
    steps: Whole = 200  # of that learning, on mixtures of features
    lr: Amount = 0.1  # of that learning
    alpha: Positive = 0.5  # Beta(alpha, alpha) gives the shares of those mixtures

    def fit_base(self, session: Session) -> None:
        super().fit_base(session)
        self.base_classes_ = len(session.classes)
        trained = session.extras.get("virtual")
        self.virtual_ = F.normalize(self._learn_virtual(session) if trained is None else trained.float(), dim=-1)

    def means(self, session: Session) -> Tensor:
        """Of features as they are: a long one counts for more. Their lengths matter in the released vote."""
        return mean_features(features(session).final, session)

    def scores(self, view: View) -> Tensor:
        unit = F.normalize(view.final, dim=-1)
        cosines = unit @ F.normalize(self.prototypes_, dim=-1).T
        if not self.eta or len(self.prototypes_) == self.base_classes_:  # the vote is for what came later
            return cosines
        return self.eta * self._vote(unit).softmax(1) + (1 - self.eta) * (self.scale * cosines).softmax(1)

    def _vote(self, unit: Tensor) -> Tensor:
        """What the nearest virtual prototypes have in common with each class."""
        nearness = unit @ self.virtual_.T
        best = nearness.topk(min(self.top, len(self.virtual_)), dim=1)
        kept = torch.zeros_like(nearness).scatter(1, best.indices, best.values)
        axis = 1 if self.normalise == "class" else 0
        return kept @ (self.virtual_ @ F.normalize(self.prototypes_, dim=axis).T)

    def _learn_virtual(self, session: Session) -> Tensor:
        """Virtual prototypes for a network that was trained without: the objective's losses on mixed features."""
        unit, classes = F.normalize(features(session).final, dim=-1), len(session.classes)
        generator = torch.Generator(unit.device).manual_seed(self.seed_)
        start = torch.empty(self.virtual, unit.shape[1])
        torch.nn.init.orthogonal_(start, generator=torch.Generator().manual_seed(self.seed_))
        virtual = start.to(unit.device).requires_grad_()
        optimizer = torch.optim.SGD([virtual], lr=self.lr, momentum=0.9, nesterov=True)

        def loss() -> Tensor:
            pairs = torch.randint(len(unit), (256, 2), generator=generator, device=unit.device)
            one, other = pairs.unbind(1)
            share = symmetric_beta(self.alpha, *torch.rand(2, 256, 1, generator=generator, device=unit.device))
            mixed = F.normalize(share * unit[one] + (1 - share) * unit[other], dim=-1)
            rows = F.normalize(torch.cat([self.prototypes_, virtual]), dim=-1)
            two_classes = session.labels[one] != session.labels[other]
            losses = mixture_losses(self.scale * mixed @ rows.T, classes)
            return (losses * two_classes).sum() / two_classes.sum().clamp(min=1)

        descend(loss, optimizer, self.steps)
        return virtual.detach()

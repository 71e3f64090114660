"""CLOM: class means twice, of the features and of a wide branch on top of them; the cosines are added up.

Zou et al., Margin-Based Few-Shot Class-Incremental Learning with Class-Level Overfitting Mitigation, NeurIPS 2022.
A network trained with `train.objective=clom` comes with its branch; for any other, it is learned on frozen features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones import CosineHead
from fscil.core.options import Amount, Bounds, Count, Positive
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, descend, features, mean_features, seeded
from fscil.methods.rows import appended
from fscil.objectives.clom import ExtraBranch
from fscil.objectives.margins import related_margins, with_margins
from fscil.training.checkpoint import under

_SCALE = 16.0


@dataclass
class CLOM(ClassMeans):
    name = "clom"
    title = "CLOM"
    paper = "Zou et al., NeurIPS 2022"
    differences = "the last epoch is kept, not the best on the test set; shots are not augmented"

    weight_extra: Amount = 1.0  # of the branch's cosines (the paper adds both up)
    width: Count = 256  # the rest is for networks that come without a branch: its width
    average: float = 0.1  # its margin for a pair of classes of average similarity
    alike: float = 0.2  # and for a pair of equal classes
    steps: Count = 300  # of its training on the base session's features
    batch: Annotated[int, Bounds(low=2)] = 128
    lr: Positive = 0.1
    weight_decay: Amount = 5e-4

    def fit_base(self, session: Session) -> None:
        learned = under("branch.", session.extras)
        self.branch_ = learned or self._learn(features(session).final, session.labels, len(session.classes))
        super().fit_base(session)
        self.extra_ = self._means(self._wide(features(session)), session)

    def fit_novel(self, session: Session) -> None:
        super().fit_novel(session)
        self.extra_ = appended(self.extra_, self._means(self._wide(features(session)), session))

    def means(self, session: Session) -> Tensor:
        return self._means(features(session).final, session)

    def scores(self, view: View) -> Tensor:
        return super().scores(view) + self.weight_extra * self._extra(view)

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"features alone": super().scores, "branch alone": self._extra}

    def _means(self, x: Tensor, session: Session) -> Tensor:
        """Of features as they are, lengths and all, as the authors take them."""
        return F.normalize(mean_features(x, session), dim=-1)

    def _extra(self, view: View) -> Tensor:
        return F.normalize(self._wide(view), dim=-1) @ self.extra_.T

    def _wide(self, view: View) -> Tensor:
        return ExtraBranch.of(self.branch_)(view.final)

    def _learn(self, x: Tensor, labels: Tensor, classes: int) -> dict[str, Tensor]:
        """The branch on frozen features, with its positive margin: the authors' optimizer and schedule, in steps."""
        with seeded(self.seed_, x.device):
            branch, head = ExtraBranch(x.shape[1], self.width).to(x.device), CosineHead(self.width, classes, _SCALE)
            head.to(x.device)
            parameters = [*branch.parameters(), *head.parameters()]
            optimizer = torch.optim.SGD(
                parameters, self.lr, momentum=0.9, nesterov=True, weight_decay=self.weight_decay
            )
            drops = [round(0.6 * self.steps), round(0.7 * self.steps)]
            schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, drops, gamma=0.1)

            def loss() -> Tensor:
                rows = torch.randint(len(x), (self.batch,), device=x.device)
                margins = related_margins(head.weight, self.average, self.alike)
                return F.cross_entropy(with_margins(head(branch(x[rows])), labels[rows], margins, _SCALE), labels[rows])

            descend(loss, optimizer, self.steps, schedule)
        return {name: value.detach() for name, value in branch.state_dict().items()}

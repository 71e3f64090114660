"""Plain fine-tuning: network and classifier go on learning, from the shots of one session after another alone.

The lower bound that papers draw: nothing keeps the old classes. (Ft-CNN in Tao et al., CVPR 2020.)
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Amount, BelowOne, Positive, Whole
from fscil.data.session import Session, View
from fscil.methods.base import Method, descend, seeded
from fscil.methods.networks import first_rows, own_network, pixels, seen, tuning
from fscil.objectives.base import cosine_logits


@dataclass
class Finetune(Method):
    name = "finetune"
    title = "Fine-tuning"
    paper = "lower bound, after Tao et al., CVPR 2020"
    mark = "reference"
    needs = frozenset({"tunes"})
    differences = "a cosine classifier, batch-norm statistics of the base session, no augmentation of the shots"

    steps: Whole = 100  # a session; each sees all its shots
    lr: Amount = 0.01
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    scale: Positive = 16.0  # logits are scale * cosine

    def fit_base(self, session: Session) -> None:
        self.network_ = own_network(session)
        self.rows_ = first_rows(self.network_, session)

    def fit_novel(self, session: Session) -> None:
        images, generator = pixels(session), self._generator(session.index, torch.device("cpu"))
        new = torch.randn(len(session.classes), self.rows_.shape[1], generator=generator) * 0.02  # as heads start
        rows = torch.nn.Parameter(torch.cat([self.rows_, new.to(self.rows_)]))
        with tuning(self.network_), seeded(self.seed_ + session.index, images.device):
            parameters = [*self.network_.backbone.parameters(), rows]
            optimizer = torch.optim.SGD(parameters, self.lr, self.momentum, weight_decay=self.weight_decay)

            def loss() -> Tensor:
                return F.cross_entropy(cosine_logits(self.network_.backbone(images), rows, self.scale), session.labels)

            descend(loss, optimizer, self.steps)
        self.rows_ = rows.detach()

    def scores(self, view: View) -> Tensor:
        return cosine_logits(seen(self.network_, pixels(view)), self.rows_, self.scale)

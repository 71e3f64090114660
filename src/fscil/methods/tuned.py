"""What methods that go on training the network have in common: a cosine classifier, and steps of SGD on both."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.config import AugmentConfig
from fscil.core.options import Amount, BelowOne, Positive
from fscil.data.session import Session, View
from fscil.methods.base import Method, descend, means_by_label, seeded
from fscil.methods.networks import augmented, first_rows, own_network, pixels, seen, tuning
from fscil.objectives.base import cosine_logits


@dataclass
class TunedCosine(Method):
    """Network `network_` and class weights `rows_` (classes, d). Batch-norm keeps the statistics of base training."""

    needs = frozenset({"tunes"})

    lr: Amount = 0.01
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    scale: Positive = 16.0  # logits are scale * cosine
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of training images, unmixed; by default none

    def fit_base(self, session: Session) -> None:
        self.network_ = own_network(session)
        self.rows_ = first_rows(self.network_, session)

    def scores(self, view: View) -> Tensor:
        return cosine_logits(seen(self.network_, pixels(view)), self.rows_, self.scale)

    def train(
        self,
        session: Session,
        start: Tensor,
        images: Tensor,
        labels: Tensor,
        rows: Callable[[], Tensor],
        steps: int,
        *,
        falling: bool = True,
        more: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        """Steps of cross-entropy on the images that `rows` draws, from these class weights.

        `falling`: the rate goes to 0 along a cosine. `more`: a further loss, of a batch's images and logits.
        """
        weights, generator = nn.Parameter(start.clone()), self._generator(session.index, images.device)
        with tuning(self.network_), seeded(self.seed_ * 1_000_003 + session.index, images.device):
            parameters = [*self.network_.backbone.parameters(), weights]
            optimizer = torch.optim.SGD(parameters, self.lr, self.momentum, weight_decay=self.weight_decay)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps)) if falling else None

            def loss() -> Tensor:
                chosen = rows()
                batch = augmented(self.augment, images[chosen], labels[chosen], generator)
                logits = cosine_logits(self.network_.backbone(batch), weights, self.scale)
                found = F.cross_entropy(logits, labels[chosen])
                return found + more(batch, logits) if more else found

            descend(loss, optimizer, steps, schedule)
        self.rows_ = weights.detach()

    def imprinted(self, rows: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """The rows and, for each class behind them, the mean of its unit features, as long as the others."""
        unit = F.normalize(seen(self.network_, images), dim=-1)
        means = means_by_label(unit, labels - len(rows), int(labels.max()) + 1 - len(rows))
        return torch.cat([rows, F.normalize(means, dim=-1) * rows.norm(dim=1).mean()])

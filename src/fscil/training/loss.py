"""The loss of base training as one module of network and objective: what is compiled, wrapped for DDP and averaged."""

from collections.abc import Sequence

from torch import Tensor, nn

from fscil.core.config import TrainConfig
from fscil.data.augment import Mixed
from fscil.objectives import Objective, distillation
from fscil.training.checkpoint import Classifier


class TrainingLoss(nn.Module):
    def __init__(self, classifier: Classifier, objective: Objective, train: TrainConfig) -> None:
        super().__init__()
        self.classifier, self.objective, self.train_config = classifier, objective, train

    def forward(
        self, views: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]], progress: Tensor, targets: Sequence[Tensor]
    ) -> Tensor:
        """Each view is the four tensors of a `Mixed` batch; `targets` are the teachers' logits of the first one."""
        train = self.train_config
        loss, logits = self.objective(self.classifier, [Mixed(*view) for view in views], progress)
        if not targets:
            return loss
        learned = train.distill_weight * distillation(logits, targets, train.distill, train.temperature)
        return learned + (1 - train.distill_weight) * loss if train.distill_weight < 1 else learned

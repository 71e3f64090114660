"""NC-FSCIL's loss (Yang et al., ICLR 2023): pull a unit feature onto its class vector, and push it off no other.

The vectors of the other classes need no term: the frame is fixed, so being on one vertex is being far from the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions

WEIGHT = 10.0


def dot_regression(cosines: Tensor, batch: Mixed, first_twice: bool = False) -> Tensor:
    """Mean of WEIGHT / 2 * (cos - 1)^2 to the class vector, by the shares of a mixed image. `cosines` (n, classes)."""
    one = cosines.gather(1, batch.labels[:, None])[:, 0] - 1
    other = cosines.gather(1, batch.others[:, None])[:, 0] - 1
    share = batch.share + (batch.share < 1) if first_twice else batch.share
    return WEIGHT / 2 * (share * one.square() + (1 - batch.share) * other.square()).mean()


class DotRegression(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        first_twice: bool = False  # the first label of a mixed image counts once more, as in the authors' code

    def forward(self, classifier: nn.Module, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        logits = classifier(views[0].images)
        return dot_regression(logits / self.setting.scale, views[0], self.options.first_twice), logits

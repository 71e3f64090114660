"""C-FSCIL's base training (Hersche et al., CVPR 2022): a wide layer whose class vectors become quasi-orthogonal.

Two stages. First plain cross-entropy by a linear classifier on the wide layer; then episodes of all base classes, which
train network and layer so that an image's vector points to the sum of its class's supports and to nothing else.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.options import Count
from fscil.data.augment import Mixed
from fscil.objectives.base import Episode, Objective, ObjectiveOptions, Setting
from fscil.objectives.cross_entropy import mixed_cross_entropy

SHARPNESS = 10.0


def softabs(cosines: Tensor) -> Tensor:
    """Near 0 for unrelated vectors, near 1 for equal and for opposite ones."""
    return torch.sigmoid(SHARPNESS * (cosines - 0.5)) + torch.sigmoid(SHARPNESS * (-cosines - 0.5))


def squashed_cosines(embedded: Tensor, vectors: Tensor) -> Tensor:
    """Cosines (n, classes) of vectors with every entry pushed towards -1 or 1."""
    return F.normalize(embedded.tanh(), dim=-1) @ F.normalize(vectors.tanh(), dim=-1).mT


def episode_loss(queries: Tensor, supports: Tensor, rows: int) -> Tensor:
    """Of embedded queries (classes, query, width) and supports (classes, shot, width).

    Supports are summed, as in the released code, so that tanh sees them five times as long as a query. A class to come
    has a row of zeros: softabs is not 0 there, so it takes its share of the attention.
    """
    classes = len(supports)
    vectors = F.pad(supports.sum(1), (0, 0, 0, max(0, rows - classes)))
    attention = softabs(squashed_cosines(queries.flatten(0, 1), vectors))
    targets = torch.eye(classes, len(vectors), device=vectors.device).repeat_interleave(queries.shape[1], 0)
    return F.binary_cross_entropy(attention / attention.sum(1, keepdim=True), targets)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Without gradients, by the running statistics of batch-norm and without touching them."""
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(training)


class WideLayer(Objective):
    """What both stages have: `embedding`, the map from features to class vectors, which the method uses too."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        width: Count = 512  # of the vectors that stand for classes

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.embedding = nn.Linear(setting.dim, options.width)
        nn.init.xavier_uniform_(self.embedding.weight)
        nn.init.zeros_(self.embedding.bias)

    def embed(self, features: Tensor) -> Tensor:
        """In full precision: cosines of quasi-orthogonal vectors differ in digits that half precision does not have."""
        with torch.autocast(features.device.type, enabled=False):
            return self.embedding(features.float())

    def probed(self, loss: Tensor, classifier: Any, features: Tensor, batch: Mixed) -> tuple[Tensor, Tensor]:
        """The loss as it is; the network's own head learns beside it, from the features and without shaping them."""
        logits = classifier.head(features.detach())
        probe = mixed_cross_entropy(logits, batch, self.setting.label_smoothing)
        return loss + probe - probe.detach(), logits


class WideCrossEntropy(WideLayer):
    """The first stage."""

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.classes = nn.Linear(options.width, setting.outputs, bias=False)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        features = classifier.backbone(views[0].images)
        logits = self.classes(self.embed(features))
        loss = mixed_cross_entropy(logits, views[0], self.setting.label_smoothing)
        return self.probed(loss, classifier, features, views[0])[0], logits


class CFSCILObjective(WideLayer):
    """The second stage."""

    @dataclass(frozen=True)
    class Options(WideLayer.Options):
        shot: Count = 5  # images of a class that are summed to its vector
        query: Count = 10  # images of a class that are compared with all vectors
        rows: Count = 100  # of the memory: the classes that will ever come

    def episode(self) -> Episode:
        return Episode(self.setting.classes, self.options.shot + self.options.query, alone=True)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        o, drawn = self.options, views[-1]
        sizes, per_class = [o.shot, o.query], (-1, o.shot + o.query)
        supports, images = drawn.images.unflatten(0, per_class).split(sizes, 1)
        with evaluating(classifier.backbone):
            sums = self.embed(classifier.backbone(supports.flatten(0, 1)))
        features = classifier.backbone(images.flatten(0, 1))
        queries = self.embed(features)
        with torch.autocast(features.device.type, enabled=False):
            loss = episode_loss(queries.unflatten(0, (-1, o.query)), sums.unflatten(0, (-1, o.shot)), o.rows)
        labels = drawn.labels.unflatten(0, per_class)[:, o.shot :].flatten()
        batch = Mixed(images.flatten(0, 1), labels, labels, torch.ones_like(labels, dtype=features.dtype))
        return self.probed(loss, classifier, features, batch)

"""From an encoder's features to one vector per image, in which classes are compared by a dot product.

An image comes as the final feature and those of a few middle blocks, (1 + layers, d). The vector is made of groups,
each of a fixed length, so that the dot product of two vectors is a weighted mean of cosines, at most 1:

- with statistics of the encoder's base classes: all features together, freed of the spread inside classes (whitened by
  the pooled covariance of base images around their class means), weight 1; and the features rectified by YourSelf's FR
  modules, which were trained on the base classes once, weight 0.5 shared by the modules;
- without (any network from elsewhere): each layer's feature as it is, weights alike.

Nothing here changes when a class is learned: what a project knows is a function of its images alone, whatever the
order they came in, and to forget a class is exact. docs/teach.md has what was tried and measured.
"""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones.rectifier import Rectifier
from fscil.core.errors import InputError
from fscil.data.session import Session, View
from fscil.teach.learning.knowledge import Space, principal_axes, rejoin
from fscil.training.checkpoint import read_tensors, save_tensors

# What is added to the covariance, in mean variances. A network pulls the classes it is trained on together, most of all
# where it has seen them often; directions that look quiet there need not be quiet in new classes. So it depends on the
# network, and is chosen for those that come with the package (in `encoders/statistics.py`); this is for others.
SHRINKAGE = 3.0
RECTIFIED_WEIGHT = 0.5  # of the rectified features together, beside 1 for the whitened ones


class Embedding(nn.Module):
    """`groups`: (width, weight) of each part of the vector; the weights sum to 1."""

    centre: Tensor
    whitening: Tensor
    axes: Tensor

    def __init__(self, layers: int, dim: int, *, whitened: bool) -> None:
        """`layers`: middle blocks beside the final feature."""
        super().__init__()
        self.layers, self.dim, self.whitened = layers, dim, whitened
        joint = (1 + layers) * dim if whitened else 0
        self.rectifier = Rectifier(layers, dim, True, torch.Generator()) if whitened and layers else None
        if whitened:
            parts = [(joint, 1.0), *[(dim, RECTIFIED_WEIGHT / max(1, layers))] * layers]
        else:
            parts = [(dim, 1.0)] * (1 + layers)
        total = sum(weight for _, weight in parts)
        self.groups = tuple((width, weight / total) for width, weight in parts)
        self.width = sum(width for width, _ in self.groups)
        self.register_buffer("centre", torch.zeros(joint))
        self.register_buffer("whitening", torch.zeros(joint, joint))
        self.register_buffer("axes", torch.zeros(2, self.width if whitened else 0))  # of the map of a project
        self.similarity = 0.7  # of two images of one class, before a project has some to tell
        self.eval().requires_grad_(False)

    @property
    def space(self) -> Space:
        return Space(self.groups, self.similarity)

    def forward(self, features: Tensor) -> Tensor:
        """(n, 1 + layers, d), final first -> (n, width)."""
        if not self.whitened:
            return self._joined(list(features.unbind(1)))
        parts = [(features.flatten(1) - self.centre) @ self.whitening]
        if self.rectifier is not None:
            parts += self.rectifier(features[:, 0], features[:, 1:].transpose(0, 1)).unbind(0)
        return self._joined(parts)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(
            [weight**0.5 * F.normalize(part, dim=-1) for part, (_, weight) in zip(parts, self.groups, strict=True)],
            dim=-1,
        )


@torch.no_grad()
def fit(
    stacked: Tensor, labels: Tensor, blocks: tuple[int, ...], depth: int, shrinkage: float = SHRINKAGE
) -> Embedding:
    """The embedding of an encoder from features (n, 1 + layers, d) of its base classes' training images."""
    from fscil.methods.whitening import within_class_whitening  # to answer, no method need be imported
    from fscil.methods.yourself import YourSelf

    embedding = Embedding(stacked.shape[1] - 1, stacked.shape[2], whitened=True)
    classes = int(labels.max()) + 1
    centre, whitening = within_class_whitening(stacked.flatten(1), labels, shrinkage)
    embedding.centre.copy_(centre)
    embedding.whitening.copy_(whitening)
    if embedding.rectifier is not None:
        method = YourSelf(layers=blocks, whitened=0.0)
        method.start(seed=0, depth=depth, device=torch.device("cpu"))
        view = View(stacked[:, 0], {block: stacked[:, 1 + at] for at, block in enumerate(blocks)})
        with torch.enable_grad():
            method.fit_base(Session(0, range(classes), None, labels, view))
        embedding.rectifier.load_state_dict(method.rectifier_.state_dict())
    sums = torch.zeros(classes, embedding.width).index_add_(0, labels, embedding(stacked))
    prototypes = rejoin(sums.numpy(), embedding.groups)
    embedding.axes.copy_(torch.from_numpy(principal_axes(prototypes)))
    return embedding


def save(path: Path, embedding: Embedding, **info: Any) -> None:
    shape = {"layers": embedding.layers, "dim": embedding.dim, "whitened": embedding.whitened}
    # Half precision halves the file and moves similarities in the fourth digit.
    tensors = {name: tensor.half() for name, tensor in embedding.state_dict().items()}
    save_tensors(path, tensors, {**info, **shape, "prior": {"similarity": embedding.similarity}, "kind": "embedding"})


def load(path: Path) -> Embedding:
    tensors, info = read_tensors(path)
    if info.get("kind") != "embedding":
        raise InputError(f"{path} does not hold an embedding; it is part of a project made by `fscil teach init`.")
    try:
        embedding = Embedding(info["layers"], info["dim"], whitened=info["whitened"])
        embedding.load_state_dict(tensors)
        embedding.similarity = float(info["prior"]["similarity"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path} is not a whole embedding ({str(error).splitlines()[0]}); take a copy of it."
        ) from None
    if not all(bool(torch.as_tensor(value).isfinite().all()) for value in (*tensors.values(), embedding.similarity)):
        raise InputError(f"{path} has values that are not finite numbers; take a whole copy of it.")
    return embedding

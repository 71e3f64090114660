"""MetaFSCIL's meta-training (Chi et al., CVPR 2022): learn, on sequences made of base classes, to learn in sessions.

In every step base classes play a whole sequence: some are known, the others come a few at a time with a few shots, and
network and classifier adapt to them as they will in real sessions. What is minimised are errors on other images of all
classes that have come, by the network before it adapted and by its modulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from fscil.backbones.modulated import Modulated, Modulation
from fscil.core.errors import InputError
from fscil.core.options import Amount, Count, Whole
from fscil.data.augment import Mixed
from fscil.objectives.base import Episode, Objective, ObjectiveOptions, Setting, cosine_logits


@dataclass(frozen=True)
class Adaptation:
    """How network and classifier take in the shots of a session."""

    steps: int  # of network and all rows, on all classes seen
    lr: float
    warmup_steps: int  # of the new rows before that, on the new classes alone
    warmup_lr: float
    scale: float  # of cosines


Weights = dict[str, Tensor]  # of the main network of a `Modulated`, by name


def weights_of(network: Modulated) -> Weights:
    return dict(network.main.named_parameters())


def features_with(network: Modulated, weights: Weights, images: Tensor) -> Tensor:
    """(n, d) of float images, by these weights in place of the network's own."""
    named = {f"main.{name}": weight for name, weight in weights.items()}
    return functional_call(network, named, (images,)).float()


def adapted(
    network: Modulated, weights: Weights, rows: Tensor, shots: Tensor, labels: Tensor, how: Adaptation
) -> tuple[Weights, Tensor]:
    """Weights and class rows after a session; the network stays as it is.

    Labels count through all classes, those of the session are behind the rows. A gradient taken of what comes out
    reaches the weights given as if the steps were constants: the first-order approximation. Rows have no gradient.
    """
    old = len(rows)
    with torch.no_grad():
        seen = features_with(network, weights, shots)
        classes = int(labels.max()) + 1 - old
        sums = seen.new_zeros(classes, seen.shape[1]).index_add_(0, labels - old, F.normalize(seen, dim=-1))
    new = F.normalize(sums, dim=-1)
    for _ in range(how.warmup_steps):
        new = new.detach().requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(cosine_logits(seen, new, how.scale), labels - old), [new])
        new = new - how.warmup_lr * slope
    rows = torch.cat([rows, new]).detach()
    for _ in range(how.steps):
        rows = rows.detach().requires_grad_()
        logits = cosine_logits(features_with(network, weights, shots), rows, how.scale)
        slopes = torch.autograd.grad(F.cross_entropy(logits, labels), [*weights.values(), rows])
        weights = {name: w - how.lr * g for (name, w), g in zip(weights.items(), slopes, strict=False)}
        rows = rows - how.lr * slopes[-1]
    return weights, rows.detach()


class MetaFSCILObjective(Objective):
    """Extras: `rows`, a unit mean for each base class, and `modulation`, which sessions leave as it is."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        known: Count = 20  # base classes that a sequence begins with
        sessions: Count = 8
        way: Count = 5
        shot: Count = 5
        queries: Count = 5  # images of a class that errors are counted on, none of them a shot
        steps: Whole = 5  # of adaptation in a session
        lr: Amount = 1e-3
        warmup_steps: Whole = 20
        warmup_lr: Amount = 0.1
        modulated: bool = True
        rank: Count = 8  # numbers that a gate of a kernel goes through

    rows: Tensor
    begun: Tensor

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.modulation: Modulation | None = None
        self.register_buffer("rows", torch.zeros(setting.classes, setting.dim))
        self.register_buffer("begun", torch.zeros((), dtype=torch.bool))
        self.how = Adaptation(options.steps, options.lr, options.warmup_steps, options.warmup_lr, setting.scale)

    def episode(self) -> Episode:
        o = self.options
        return Episode(o.known + o.sessions * o.way, o.shot + o.queries, alone=True)

    def start(self, classifier: Any) -> None:
        classifier.head.requires_grad_(False)  # rows are class means
        if self.options.modulated:
            self.modulation = Modulation(classifier.backbone, self.options.rank)

    def every_epoch(self, classifier: Any, images: Tensor, labels: Tensor) -> None:
        fewest, needed = int(labels.bincount().min()), self.options.shot + self.options.queries
        if fewest < needed:
            raise InputError(
                f"train.objective=metafscil draws {needed} different images of a class, and a base class has {fewest}; "
                f"lower shot or queries in train.objective_options."
            )
        if self.modulation and not self.begun:  # the branch goes on from the trained network too
            self.modulation.branch.load_state_dict(classifier.backbone.state_dict())
        self.begun.fill_(True)
        self.rows.copy_(class_means(Modulated(classifier.backbone, self.modulation), images, labels, len(self.rows)))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        o, drawn = self.options, views[-1]
        network = Modulated(classifier.backbone, self.modulation)
        shots, queries = drawn.images.unflatten(0, (-1, o.shot + o.queries)).split([o.shot, o.queries], 1)
        labels = torch.arange(len(shots), device=drawn.labels.device)  # in the order in which classes come
        weights, rows = weights_of(network), self.rows[drawn.labels[:: o.shot + o.queries][: o.known]]
        losses, logits = [], rows
        for first in range(o.known, len(labels), o.way):
            seen = first + o.way
            of_shots = labels[first:seen].repeat_interleave(o.shot)
            weights, rows = adapted(network, weights, rows, shots[first:seen].flatten(0, 1), of_shots, self.how)
            logits = cosine_logits(
                features_with(network, weights, queries[:seen].flatten(0, 1)), rows, self.setting.scale
            )
            losses.append(F.cross_entropy(logits, labels[:seen].repeat_interleave(o.queries)))
        return torch.stack(losses).mean(), logits  # there is no batch that a teacher could be asked about


def class_means(network: Modulated, images: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Unit means of unit features (classes, d) of uint8 images."""
    unit = F.normalize(torch.cat([network(part).float() for part in images.split(500)]), dim=-1)
    return F.normalize(unit.new_zeros(classes, unit.shape[1]).index_add_(0, labels, unit), dim=-1)

"""OrCo's base training (Ahmed et al., CVPR 2024): contrast, then classes tied to targets that leave room for others.

Two stages. First supervised and self-supervised contrast of several views. Then as many unit vectors as classes will
ever come are spread as far apart as they go; every base class gets the one nearest to it, and a projector learns to
send features there, while perturbed copies of the others keep their places free. Sessions go on with the same loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.errors import InputError
from fscil.core.options import Amount, Bounds, Count, Positive, Share
from fscil.data.augment import Mixed
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, batched_features
from fscil.objectives.cross_entropy import mixed_cross_entropy

TEMPERATURE = 0.07  # of the contrast with targets; their cross-entropy has none
_GONE = -1e9  # a logit that counts for nothing; infinity would have no gradient where a row has nothing else


def make_projector(inputs: int, hidden: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, width))


def contrast_in_sum(unit: Tensor, names: Tensor, temperature: float) -> Tensor:
    """Mean over rows of -log of the share that rows of its name, together, have in the softmax over all others."""
    same, self_ = names[:, None] == names, torch.eye(len(names), dtype=torch.bool, device=names.device)
    others = (unit @ unit.T / temperature).masked_fill(self_, _GONE)
    return (others.logsumexp(1) - others.masked_fill(~same, _GONE).logsumexp(1)).mean()


def contrast_in_mean(unit: Tensor, names: Tensor, temperature: float) -> Tensor:
    """As `contrast_in_sum`, with the mean of what each row of its name would have alone (SupCon)."""
    self_ = torch.eye(len(names), dtype=torch.bool, device=names.device)
    same = (names[:, None] == names) & ~self_
    shares = (unit @ unit.T / temperature).masked_fill(self_, _GONE).log_softmax(1)
    partners = same.sum(1)
    losses = -(shares * same).sum(1) / partners.clamp(min=1)
    return losses.sum() / (partners > 0).sum().clamp(min=1)  # a row without a partner says nothing


def crowding(unit: Tensor) -> Tensor:
    """Mean of log-sum-exp of cosines: smallest where unit vectors (n, d) are as far from each other as they go."""
    return (unit @ unit.T).logsumexp(1).mean()


def far_apart(count: int, width: int, steps: int, generator: torch.Generator | None = None) -> Tensor:
    """(count, width) unit vectors by descent on their crowding.

    Gradients add up from step to step, as in the authors' code: they are what brings all cosines of 100 vectors in 128
    dimensions within 0.002 of each other in 1,000 steps. With cleared ones some pairs are at 0.2 then.
    """
    points = F.normalize(torch.randn(count, width, generator=generator), dim=-1).requires_grad_()
    for _ in range(steps):
        with torch.enable_grad():
            crowding(F.normalize(points, dim=-1)).backward()
        with torch.no_grad():
            assert points.grad is not None
            points.copy_(F.normalize(points - points.grad, dim=-1))
    return points.detach()


def assigned_first(means: Tensor, targets: Tensor) -> Tensor:
    """The targets in another order: that of each class (by its mean) first, then those of none.

    No two classes share one, and together they are as near to theirs as can be (in the sum of cosines).
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    cosines = F.normalize(means, dim=-1) @ targets.T
    _, chosen = linear_sum_assignment(cosines.cpu().numpy(), maximize=True)
    rest = torch.ones(len(targets), dtype=torch.bool, device=targets.device)
    places = torch.as_tensor(chosen, device=targets.device)
    rest[places] = False
    return torch.cat([targets[places], targets[rest]])


def perturbed(
    targets: Tensor, first: int, count: int, size: float, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Two displaced copies (2, count, d) of targets from `first` on, with their places; each as often as another."""
    left = len(targets) - first
    order = first + torch.rand(left, generator=generator, device=targets.device).argsort()
    rows = order.repeat(-(-count // max(1, left)))[:count]
    noise = torch.rand(2, len(rows), targets.shape[1], generator=generator, device=targets.device) - 0.5
    return F.normalize(targets[rows] + size * noise, dim=-1), rows


@dataclass(frozen=True)
class Pulls:
    """How classes are pulled to their targets: those from `base` on count as new."""

    seen: int  # classes that have a target
    base: int = 0
    new: float = 1.0  # weight of the cross-entropy of new classes, and of the others
    old: float = 0.0


def alignment_loss(
    views: Tensor, labels: Tensor, targets: Tensor, pulls: Pulls, fillers: tuple[Tensor, Tensor]
) -> Tensor:
    """Of unit projections (2, n, d) of two views; targets stand in the order of classes, fillers are `perturbed` ones.

    Contrast with the fillers as further classes, crowding of all classes and free targets, cross-entropy to targets.
    """
    rows, names = torch.cat([views, fillers[0]], 1).flatten(0, 1), torch.cat([labels, fillers[1]]).repeat(2)
    loss = contrast_in_mean(rows, names, TEMPERATURE) + crowding(_in_place(views[0], labels, targets, pulls.base))
    both, new = labels.repeat(2), (labels >= pulls.base).repeat(2)
    surprise = F.cross_entropy(views.flatten(0, 1) @ targets[: pulls.seen].T, both, reduction="none")
    for weight, members in ((pulls.new, new), (pulls.old, ~new)):
        loss = loss + weight * (surprise * members).sum() / members.sum().clamp(min=1)
    return loss


def _in_place(view: Tensor, labels: Tensor, targets: Tensor, base: int) -> Tensor:
    """Targets, but for classes that count as new and are in the batch: those have the direction of their mean."""
    counts = (labels >= base).to(view.dtype)
    present = targets.new_zeros(len(targets)).index_add(0, labels, counts) > 0
    sums = torch.zeros_like(targets).index_add(0, labels, view * counts[:, None])
    return torch.where(present[:, None], F.normalize(sums, dim=-1), targets)


class Projected(Objective):
    """What both stages have: `projector`, which the method uses too."""

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        hidden: Count = 2048  # of the projector's two layers
        width: Count = 128  # of the space of the targets (CUB-200: 256)

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        if setting.outputs != setting.classes:
            raise InputError(f"{self.__class__.__name__} has one name for a class; set train.augment.turn to 0.")
        self.projector = make_projector(setting.dim, options.hidden, options.width)

    def project(self, features: Tensor) -> Tensor:
        """In full precision: small temperatures need it."""
        with torch.autocast(features.device.type, enabled=False):
            return F.normalize(self.projector(features.float()), dim=-1)


class OrCoObjective(Projected):
    """The first stage."""

    @dataclass(frozen=True)
    class Options(Projected.Options):
        views: Annotated[int, Bounds(low=2)] = 4  # of every image in a step (miniImageNet: 2)
        temperature: Positive = 0.2
        weight_self: Share = 0.1  # of the contrast that tells images apart; the rest is of that which tells classes

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.views = options.views

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        o, count = self.options, len(views)
        features = [classifier.backbone(view.images) for view in views]  # each view has batch statistics of its own
        unit, labels = self.project(torch.cat(features)), torch.cat([view.labels for view in views])
        images = torch.arange(len(views[0].labels), device=labels.device).repeat(count)
        with torch.autocast(unit.device.type, enabled=False):
            classes, single = (contrast_in_sum(unit, names, o.temperature) for names in (labels, images))
        # The network's own head learns from the features without shaping them.
        logits = [classifier.head(x.detach()) for x in features]
        probe = [mixed_cross_entropy(x, v, self.setting.label_smoothing) for x, v in zip(logits, views, strict=True)]
        return (1 - o.weight_self) * classes + o.weight_self * single + torch.stack(probe).mean(), logits[0]


class OrCoAlignment(Projected):
    """The second stage: the projector alone, on the network as it is."""

    targets: Tensor
    assigned: Tensor
    views = 2

    @dataclass(frozen=True)
    class Options(Projected.Options):
        targets: Annotated[int, Bounds(low=2)] = 100  # all classes that will ever come
        target_steps: Count = 1000  # of spreading them (CUB-200: 5000)
        perturbation: Amount = 1e-2  # of the copies that keep places free: 1 is a cube of side 1 (CIFAR-100: 9e-5)
        train_network: bool = False  # too (CUB-200)

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        if options.targets < setting.classes:
            raise InputError(
                f"{options.prefix}targets reserves places for all classes that will ever come; got {options.targets} "
                f"for {setting.classes} base classes alone."
            )
        self.register_buffer("targets", torch.zeros(options.targets, options.width))
        self.register_buffer("assigned", torch.zeros((), dtype=torch.bool))

    def start(self, classifier: nn.Module) -> None:
        count, width = self.targets.shape
        self.targets.copy_(far_apart(count, width, self.options.target_steps))
        if not self.options.train_network:
            classifier.requires_grad_(False)

    def every_epoch(self, classifier: Any, images: Tensor, labels: Tensor) -> None:
        if self.assigned:  # once, before the first step
            return
        with torch.autocast(images.device.type, enabled=False):
            projected = self.projector(batched_features(classifier, images))
        means = projected.new_zeros(self.setting.classes, projected.shape[1]).index_add_(0, labels, projected)
        self.targets.copy_(assigned_first(means, self.targets))
        self.assigned.fill_(True)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        labels, classes = views[0].labels, self.setting.classes
        features = classifier.backbone(torch.cat([view.images for view in views]))
        unit = self.project(features).unflatten(0, (2, -1))
        fillers = perturbed(self.targets, classes, len(labels), self.options.perturbation)
        with torch.autocast(unit.device.type, enabled=False):
            loss = alignment_loss(unit, labels, self.targets, Pulls(classes), fillers)
        return loss, classifier.head(features[: len(labels)])

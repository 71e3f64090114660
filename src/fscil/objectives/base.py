"""What an objective of base training is: the loss that a paper changes, with the parameters that it adds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import CosineHead
from fscil.core.options import Checked
from fscil.data.augment import Mixed

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Setting:
    """What an objective has to know of the network it trains."""

    dim: int  # of the features
    classes: int  # of the base session
    outputs: int  # of the head: more than the classes where turned ones count
    scale: float  # the head's factor
    label_smoothing: float


@dataclass(frozen=True)
class ObjectiveOptions(Checked):
    """The options of an objective; one without any takes this class."""

    prefix: ClassVar[str] = "train.objective_options."


@dataclass(frozen=True)
class Episode:
    """What an objective wants to see of few classes in every step: `images` different ones of `classes` others each.

    They come as the last view, one class after the other: augmented as the batch is, never mixed. On several processes
    each has the whole of it, as a part would be another task.
    """

    classes: int
    images: int  # of each class; one that has fewer gives them again
    alone: bool = False  # there is no ordinary batch beside it


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are trained otherwise than the rest: with a rate (0: not at all) and a decay of their own."""

    parameters: Sequence[nn.Parameter]
    factor: float = 1.0  # of the training's rate
    weight_decay: float | None = None  # None: as the training says for matrices


class Objective(nn.Module):
    """Parameters and buffers are trained and averaged with the network and saved with it: `Checkpoint.extras`."""

    Options: ClassVar[type[Any]] = ObjectiveOptions  # a frozen dataclass; set by train.objective_options
    views: int = 1  # augmented views of each image that a step needs
    plain: ClassVar[bool] = False  # whether the images come once more as they are, after those views

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__()
        self.options, self.setting = options, setting

    @classmethod
    def extra_rows(cls, options: Any, classes: int) -> int:
        """Rows of the head besides those of the classes, such as one for each class to come; none is tested."""
        return 0

    def groups(self, classifier: nn.Module) -> Sequence[ParameterGroup]:
        """Parameters, of its own or of the network, that are trained otherwise than the recipe says. After `start`."""
        return ()

    def episode(self) -> Episode | None:
        """Which episode comes beside the batch in every step; None: none does."""
        return None

    def forward(self, classifier: nn.Module, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        """The loss, and the head's logits of the first view (which a teacher, where there is one, is compared with).

        `classifier` has `backbone` (images -> features) and `head` (features -> logits). `progress` goes from 0 to 1
        over the training; it is a tensor because a recorded step cannot see a Python number change.
        """
        raise NotImplementedError

    def start(self, classifier: nn.Module) -> None:
        """Called once, before training and without gradients: for first weights of the head, say.

        Weights that a second stage has from the first replace them.
        """

    def every_epoch(self, classifier: nn.Module, images: Tensor, labels: Tensor) -> None:
        """Called before the first step of every epoch, without gradients, the network in evaluation mode.

        It is shown all images of the base session (uint8) with their labels: `batched_features` gives their features.
        What it changes it must change in place, and what it remembers must be a buffer, so that a recorded step reads
        it and a training that was killed in the middle of an epoch has it.
        """

    def after_step(self, classifier: nn.Module) -> None:
        """Called after every update, without gradients: for a momentum copy of the network, say."""

    def finish(self, classifier: nn.Module) -> None:
        """Called once, after training and without gradients, on the network that is kept: to bake a mask into it, say.

        What it leaves must be a network and a head of the recipe's kind, since that is what is loaded.
        """


def start_as_linear(head: nn.Module) -> None:
    """First class weights as torch gives them to a linear layer, which a published cosine classifier usually is.

    They are several times longer than those of a cosine head here, so that the same rate turns them more slowly.
    """
    if isinstance(head, CosineHead):
        nn.init.kaiming_uniform_(head.weight, a=math.sqrt(5))


def batched_features(classifier: Any, images: Tensor, batch_size: int = 500) -> Tensor:
    """(n, d) in float32, on the device of the images."""
    return torch.cat([classifier.backbone(part).float() for part in images.split(batch_size)])


def restored(make: Callable[[], M], state: Mapping[str, Tensor]) -> M:
    """A trained module from its tensors, as a fixed function: without dropout and without gradients."""
    with torch.device("meta"):  # no random first weights, which would take numbers from others
        module = make()
    module.load_state_dict(dict(state), assign=True)
    return module.eval().requires_grad_(False)


def cosine_logits(features: Tensor, rows: Tensor, scale: float | Tensor) -> Tensor:
    with torch.autocast(features.device.type, enabled=False):
        return scale * F.linear(F.normalize(features.float(), dim=-1), F.normalize(rows.float(), dim=-1))

"""Networks that a method has for itself: looked through, tuned, given other rows."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import Backbone, CosineHead, EtfHead, LinearHead
from fscil.backbones.extract import extract
from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.data.augment import Augment
from fscil.data.session import Session, View
from fscil.methods.base import class_means
from fscil.methods.module_state import at_rest
from fscil.training.checkpoint import Classifier


def pixels(shown: Session | View) -> Tensor:
    if shown.images is None:
        raise InputError("A method that tunes its network looks at images, and there are none; give it the pixels.")
    return shown.images


def own_network(session: Session) -> Classifier:
    """What a method that tunes gets of the base session, to change and keep as it likes."""
    if session.network is None:
        raise InputError("A method that tunes its network needs one; run it with the network that base training left.")
    network: Classifier = session.network
    return network


def seen(network: Classifier, images: Tensor, batch_size: int = 0) -> Tensor:
    """Features (n, d) of uint8 images, looked at as the recipe says (test_zoom, test_mirror), without gradients."""
    return extract(network.backbone, images, batch_size=batch_size).final.to(images.device)


class BeforeLastBlock:
    """Images on their way through a network as far as it stays while its last block is tuned."""

    @torch.no_grad()
    def __init__(self, backbone: Backbone, images: Tensor, batch_size: int = 500) -> None:
        self.backbone, self.stage = backbone, backbone.stages - 1
        self.parts = [backbone.forward_until(part, self.stage) for part in images.split(batch_size)]

    def unit(self) -> Tensor:
        """Their features (n, d) as the last block makes them now, at length 1."""
        return torch.cat([F.normalize(self.backbone.forward_from(part, self.stage), dim=-1) for part in self.parts])


@contextmanager
def tuning(
    module: nn.Module, parameters: Iterable[nn.Parameter] | None = None, *, moving_statistics: bool = False
) -> Iterator[list[nn.Parameter]]:
    """In training mode, with gradients of these parameters (all of the module's, if none are named); then at rest.

    Batch-norm uses the statistics it has and leaves them as they are, unless they are to move. Where the network drops
    parts of itself at random, the caller says by which numbers (`seeded`).
    """
    chosen = list(module.parameters() if parameters is None else parameters)
    module.train().requires_grad_(False)
    for part in module.modules():
        if getattr(part, "track_running_stats", False) and not moving_statistics:
            part.eval()
    for parameter in chosen:
        parameter.requires_grad_()
    try:
        yield chosen
    finally:
        at_rest(module)
        for parameter in chosen:  # which may be another's
            parameter.requires_grad_(False).grad = None


def augmented(config: AugmentConfig, images: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Float images (n, 3, h, w), each changed once as the config says; unmixed."""
    augment = Augment(config, len(images), images.device)
    augment.generator = generator
    return augment(images, labels).images


def first_rows(network: Classifier, session: Session) -> Tensor:
    """A vector for each base class to compare features with: that of a cosine head, or else the mean of the class."""
    if isinstance(network.head, CosineHead):
        return network.head.weight[: len(session.classes)].detach().clone()
    return class_means(seen(network, pixels(session)), session)


def set_rows(network: Classifier, rows: Tensor) -> None:
    """Another class weight for every class, as many as there are rows: (classes, d)."""
    head = network.head
    if isinstance(head, EtfHead):
        raise InputError("The class vectors of train.head=etf are fixed; take a network with another head.")
    head.weight = nn.Parameter(rows.detach().to(head.weight).clone(), requires_grad=False)
    if isinstance(head, LinearHead):
        head.out_features = len(rows)

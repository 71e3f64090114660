"""Augmented copies of single images as the frozen network sees them: for methods that learn from them in sessions."""

import torch
from torch import Tensor

from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.data.augment import Augment
from fscil.data.session import Session
from fscil.methods.base import features
from fscil.objectives.base import batched_features


def shown(session: Session) -> Tensor:
    """What single images of a session are to a method: pixels (uint8), or features where there is nothing else."""
    return features(session).final if session.images is None or session.network is None else session.images


@torch.no_grad()
def augmented(images: Tensor, network: object, augment: AugmentConfig, seed: int) -> Tensor:
    """Features (n, d) of one copy of each of `images`, as `shown` gave them; features stay as they are."""
    if images.dtype != torch.uint8:
        return images
    # The labels say nothing: images that would get another one are refused.
    labels = torch.zeros(len(images), dtype=torch.long, device=images.device)
    return batched_features(network, Augment(augment, len(images), images.device)(images, labels, seed).images)


def check_keeps_labels(augment: AugmentConfig, where: str) -> None:
    """Copies are of the image's class."""
    if augment.turn or augment.mixup or augment.cutmix:
        raise InputError(f"{where} makes copies of single images; leave turn, mixup and cutmix at 0 there.")

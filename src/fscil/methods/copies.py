"""Augmented copies of images as the frozen network sees them: for methods that learn from them in sessions."""

import zlib
from typing import Any

import torch
from torch import Tensor

from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.data.augment import Augment
from fscil.data.session import Session
from fscil.objectives.base import batched_features


class Copies:
    """Features of copies of a session's images, and of those that are kept for it, by the network that it brings."""

    def __init__(self, session: Session, augment: AugmentConfig, seed: int) -> None:
        if session.images is None or session.network is None:
            raise InputError(
                "This method learns from augmented copies of its shots, and there are no pixels or no network; "
                "run it with the network that base training left."
            )
        self.network: Any = session.network
        self.augment, self.seed = augment, seed

    @torch.no_grad()
    def anew(self, images: Tensor, number: int) -> Tensor:
        """One copy of each of the uint8 images, others for every number: (n, d)."""
        return batched_features(self.network, self._change(images, self.seed * 1_000_003 + number))

    @torch.no_grad()
    def lasting(self, images: Tensor, count: int) -> Tensor:
        """(count * n, d), one round after the other. An image has the same copies in whatever company it comes."""
        made = [
            self._change(image[None], zlib.crc32(image.cpu().numpy().tobytes(), self.seed * count + number))
            for number in range(count)
            for image in images
        ]
        if not made:
            return torch.empty(0, self.network.backbone.dim, device=images.device)
        return batched_features(self.network, torch.cat(made))

    def _change(self, images: Tensor, seed: int) -> Tensor:
        labels = torch.zeros(len(images), dtype=torch.long, device=images.device)
        return Augment(self.augment, len(images), images.device)(images, labels, seed).images


def check_labels_stay(augment: AugmentConfig, where: str) -> None:
    """Copies are of their image's class."""
    if augment.turn or augment.mixup or augment.cutmix:
        raise InputError(f"{where} makes copies of single images; leave turn, mixup and cutmix at 0 there.")

"""What learning code may see: the training images of one session, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class View:
    """What is known of some images: final features, features after chosen blocks, and, where needed, the pixels."""

    final: Tensor  # (n, d) class token after the last block, through the final norm
    layers: Mapping[int, Tensor] = field(default_factory=dict)  # block (1-based) -> (n, d), through the final norm
    images: Tensor | None = None  # (n, height, width, 3) uint8

    def __len__(self) -> int:
        return len(self.final)

    def to(self, device: torch.device | str) -> View:
        images = None if self.images is None else self.images.to(device)
        return View(self.final.to(device), {b: x.to(device) for b, x in self.layers.items()}, images)

    def __getitem__(self, index: Tensor | slice) -> View:
        images = None if self.images is None else self.images[index]
        return View(self.final[index], {b: x[index] for b, x in self.layers.items()}, images)


@dataclass(frozen=True)
class Session:
    """Training images of one session. Labels count through the class order: the base classes are 0..base-1.

    The arrays are copies: there is no way from here to test images, to other sessions or to future classes.
    """

    index: int  # 0: base
    classes: range
    images: Tensor | None  # (n, height, width, 3) uint8; None once only features are handed on
    labels: Tensor  # (n,) int64
    view: View | None = None  # features, attached by the protocol
    head: Tensor | None = None  # base session: the trained classifier's weights (classes, d), attached in the same way
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # base session: what else base training learned
    network: Any = None  # the frozen classifier (backbone and head), for methods that need "backbone"

    def __len__(self) -> int:
        return len(self.labels)

    def hold_out(self, fraction: float, seed: int) -> tuple[Session, Session]:
        """Split off a share of every class, for choosing hyperparameters without touching the test set."""
        rng = np.random.default_rng([seed, 77])
        held = torch.zeros(len(self), dtype=torch.bool)
        for c in self.classes:
            members = torch.nonzero(self.labels == c).flatten()
            take = max(1, round(fraction * len(members)))
            held[members[torch.from_numpy(rng.permutation(len(members))[:take])]] = True
        return self._part(~held), self._part(held)

    def _part(self, mask: Tensor) -> Session:
        index = torch.nonzero(mask).flatten()
        images = None if self.images is None else self.images[index]
        view = None if self.view is None else self.view[index]
        return Session(self.index, self.classes, images, self.labels[index], view)

"""What learning code may see: the training images of one session, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data.fantasy import Transform


@dataclass(frozen=True)
class View:
    """What is known of some images: their features and, where a method needs them, the pixels."""

    final: Tensor  # (n, d) class token after the last block, through the final norm
    layers: Mapping[int, Tensor] = field(default_factory=dict)  # block (1-based) -> (n, d), through the final norm
    images: Tensor | None = None  # (n, height, width, 3) uint8
    turned: Mapping[Transform, Tensor] = field(default_factory=dict)  # final features of the images transformed so

    def __len__(self) -> int:
        return len(self.final)

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.final.device

    def to(self, device: torch.device | str) -> View:
        """The same on another device."""
        return self._each(lambda x: x.to(device))

    def __getitem__(self, index: Tensor | slice) -> View:
        return self._each(lambda x: x[index])

    @staticmethod
    def joined(views: Sequence[View]) -> View:
        """The rows of all of them, one after the other; they must hold the same things."""
        first = views[0]
        return View(
            torch.cat([view.final for view in views]),
            {block: torch.cat([view.layers[block] for view in views]) for block in first.layers},
            None if first.images is None else torch.cat([view.images for view in views if view.images is not None]),
            {transform: torch.cat([view.turned[transform] for view in views]) for transform in first.turned},
        )

    def in_transforms(self, transforms: Sequence[Transform]) -> Tensor:
        """Features of the images as they are and in each of the transforms: (1 + transforms, n, d)."""
        if missing := [transform for transform in transforms if transform not in self.turned]:
            raise InputError(f"Features of images in the transforms {missing} are missing; run it with its network.")
        return torch.stack([self.final, *[self.turned[transform] for transform in transforms]])

    def _each(self, change: Callable[[Tensor], Tensor]) -> View:
        return View(
            change(self.final),
            {block: change(x) for block, x in self.layers.items()},
            None if self.images is None else change(self.images),
            {transform: change(x) for transform, x in self.turned.items()},
        )


class PixelView(View):
    """Images without features, for a method that tunes its network: those at hand are of the network before that."""

    def __init__(self, images: Tensor) -> None:
        object.__setattr__(self, "images", images)

    def __getattr__(self, name: str) -> Any:
        if name in ("final", "layers", "turned"):
            raise StaleFeaturesError(
                f"A method that tunes its network has no view.{name}: features at hand are of the network as base "
                f"training left it; put view.images through the method's own network."
            )
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self._pixels)

    def __repr__(self) -> str:
        return f"PixelView({tuple(self._pixels.shape)})"

    @property
    def device(self) -> torch.device:
        return self._pixels.device

    @property
    def _pixels(self) -> Tensor:
        assert self.images is not None
        return self.images

    def _each(self, change: Callable[[Tensor], Tensor]) -> View:
        return PixelView(change(self._pixels))


class StaleFeaturesError(Exception):
    """Features of the untouched network were asked for by a method that changes its own."""


@dataclass(frozen=True)
class Budget:
    """Images that may be kept: of each class, or of all together, or both; neither: all, which only references may."""

    per_class: int | None = None
    total: int | None = None

    @property
    def everything(self) -> bool:
        return self.per_class is None and self.total is None

    def __str__(self) -> str:
        if self.everything:
            return "all images of earlier sessions"
        parts = [(self.per_class, "of each class"), (self.total, "in all")]
        return "images of earlier sessions: " + ", ".join(f"{most} {what}" for most, what in parts if most is not None)

    def excess(self, labels: Tensor) -> str:
        """What is too much about images with these labels; empty if nothing is."""
        most = int(labels.bincount().max()) if len(labels) else 0
        if self.per_class is not None and most > self.per_class:
            return f"{most} images of a class, and its budget is {self.per_class}"
        if self.total is not None and len(labels) > self.total:
            return f"{len(labels)} images, and its budget is {self.total}"
        return ""


@dataclass(frozen=True)
class Memory:
    """Images of earlier sessions that the protocol keeps for a method, in the order in which it named them."""

    images: Tensor  # (n, height, width, 3) uint8
    labels: Tensor  # (n,) int64

    def __len__(self) -> int:
        return len(self.labels)


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
    # A copy of the classifier (backbone and head): in every session for methods that need "backbone", in the base
    # session for those that tune it, whose own it is from then on.
    network: Any = None
    memory: Memory | None = None  # what was kept of earlier sessions, for methods with a budget (empty at first)

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

"""Features of images in fixed transforms (turned, colours shifted), for methods that see an image in all of them."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from fscil.backbones.extract import extract
from fscil.core.errors import InputError
from fscil.data.fantasy import Transform, transformed
from fscil.data.session import View


class FantasyViews:
    """Runs the frozen network on transformed pixels."""

    def __init__(self) -> None:
        self.network: Any = None  # the frozen classifier; every session brings it
        self._known = WeakTensorKeyDictionary()

    def __call__(
        self, view: View, pixels: Tensor | None, transforms: tuple[Transform, ...], keep: bool = False
    ) -> Tensor:
        """(transforms, n, d); the first transform is the identity, whose features are there already.

        What is run with `keep` is remembered as long as the pixels are there: the same images are examined after
        every session. A session's own images are seen once and nothing of them stays.
        """
        if len(transforms) == 1:
            return view.final[None]
        if pixels is None or self.network is None:
            raise InputError("Features of turned images need both the pixels and the network; one is missing.")
        known = self._known.setdefault(pixels, {}) if keep else {}
        for transform in transforms[1:]:
            if transform not in known:
                known[transform] = extract(self.network.backbone, transformed(pixels, transform)).final
        return torch.stack([view.final, *[known[transform].to(view.final) for transform in transforms[1:]]])

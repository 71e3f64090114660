"""A network that gives one feature per image and no layers, as a backbone."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fscil.backbones import Backbone
from fscil.core.errors import InputError


class PlainNetwork(Backbone):
    """A model that is asked for its features, pooled."""

    def __init__(self, model: nn.Module, image_size: int) -> None:
        with torch.no_grad():
            shape = model.eval()(torch.zeros(1, 3, image_size, image_size)).shape
        if len(shape) != 2:
            raise InputError(f"The model gives features of shape {tuple(shape)}, not one vector; choose another.")
        super().__init__(image_size, int(shape[1]), depth=0)
        self.model = model

    def forward_normalised(self, images: Tensor) -> Tensor:
        return self.model(images)

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        if blocks:
            raise InputError("This model gives no intermediate features.")
        return self(images), {}

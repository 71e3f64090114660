"""Several trained networks as one: features side by side, so that every method sees what each of them saw.

Every part's features have one length, so a cosine between joined features is the mean of the parts' cosines, weighed by
their widths. Nothing is trained; it costs what its parts cost together.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.extract import at_one_length
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError


class Joined(Backbone):
    """`parts` look at the same images, each with its own normalisation and size. It has blocks if all have as many."""

    def __init__(self, config: BackboneConfig, make: Callable[[BackboneConfig], Backbone]) -> None:
        if len(config.parts) < 2:
            raise InputError("backbone.kind=joined is made of trained networks; make one with `fscil join`.")
        parts = [make(part) for part in config.parts]
        depths = {part.depth for part in parts}
        super().__init__(parts[0].image_size, sum(part.dim for part in parts), min(depths) if len(depths) == 1 else 0)
        self.stages = 0
        self.parts = nn.ModuleList(parts)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_layers(images, ())[0]

    def forward_normalised(self, images: Tensor) -> Tensor:
        raise InputError("Joined networks have no normalisation in common; this method needs one of them alone.")

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        for block in blocks:
            check_block(block, self.depth)
        seen = []
        for part in self.parts:
            assert isinstance(part, Backbone)
            part.test_zoom = self.test_zoom
            seen.append(part.forward_layers(images, blocks))
        final = torch.cat([at_one_length(features) for features, _ in seen], 1)
        return final, {block: torch.cat([at_one_length(layers[block]) for _, layers in seen], 1) for block in blocks}

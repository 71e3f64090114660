"""Any network of timm as a backbone: its stages (of a transformer, its blocks) are layers, each pooled to one vector.

Vision transformers are taken by `fscil.backbones.vit`, whose layers are class tokens; here a layer is the mean over the
map that timm's `forward_intermediates` gives, through the network's final norm where it has one for all layers.
"""

from collections.abc import Sequence
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.named import created, input_statistics, layer_count, source
from fscil.backbones.vit import ViT
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError


def timm_backbone(config: BackboneConfig) -> Backbone:
    model = created(config)
    return ViT(config, model) if isinstance(model, VisionTransformer) else TimmNetwork(config, model)


class TimmNetwork(Backbone):
    """The final features are those in front of timm's classifier."""

    narrow_layers = True

    def __init__(self, config: BackboneConfig, model: nn.Module) -> None:
        super().__init__(config.image_size, _width(config, model), depth=layer_count(model))
        self.model: Any = model
        self.stages = 0  # a network of timm is not cut in two: nothing can be mixed or tuned inside
        if config.pretrained:
            self.mean, self.std = input_statistics(config, model)
            self.pretraining = source(config, model)

    def forward_normalised(self, images: Tensor) -> Tensor:
        return self.model(images)

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        if not blocks:
            return self(images), {}
        if not self.depth:
            raise InputError("This network of timm gives no intermediate features; take a method that needs none.")
        for block in blocks:
            check_block(block, self.depth)
        numbers = sorted(set(blocks))  # timm gives them in the order of the network
        last, maps = self.model.forward_intermediates(
            self.prepare(images), indices=[number - 1 for number in numbers], norm=True, output_fmt="NCHW"
        )
        pooled = [each.mean((2, 3)) for each in maps]
        return self.model.forward_head(last), dict(zip(numbers, pooled, strict=True))

    def layer_module(self, layer: int) -> nn.Module:
        check_block(layer, self.depth)
        found: nn.Module = self.model.get_submodule(self.model.feature_info[layer - 1]["module"])
        return found


def _width(config: BackboneConfig, model: nn.Module) -> int:
    """Of the final features, seen by trying: networks disagree on where they say it."""
    training = model.training
    try:
        with torch.no_grad():
            shape = model.eval()(torch.zeros(1, 3, config.image_size, config.image_size)).shape
    except (RuntimeError, AssertionError, ValueError) as error:
        settings: Any = model.pretrained_cfg
        reason = (str(error).splitlines() or ["it gives no reason"])[0].rstrip(".")
        raise InputError(
            f"'{config.name}' does not take images of {config.image_size} pixels ({reason}); set backbone.image_size, "
            f"for example to {settings['input_size'][-1]}."
        ) from None
    model.train(training)
    if len(shape) != 2:
        raise InputError(f"'{config.name}' gives features of shape {tuple(shape)[1:]}, not one vector; take another.")
    return int(shape[1])

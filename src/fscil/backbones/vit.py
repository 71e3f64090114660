"""timm's vision transformer as a feature extractor: class-token features after chosen blocks, through the final norm.

Paper, section 4.1 and appendix A2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import timm
import torch
from timm.layers import PatchEmbed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.stem import ConvStem
from fscil.config import BackboneConfig
from fscil.errors import InputError


class ViT(Backbone):
    """A timm ViT without head."""

    def __init__(self, config: BackboneConfig) -> None:
        trunk = _named(config) if config.name else _sized(config)
        super().__init__(int(trunk.patch_embed.img_size[0]), int(trunk.embed_dim), len(trunk.blocks))
        self.trunk = trunk
        if config.pretrained:
            expected: Any = trunk.pretrained_cfg
            self.mean.copy_(torch.tensor(expected["mean"])[:, None, None])
            self.std.copy_(torch.tensor(expected["std"])[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        return self.trunk.forward_head(self.trunk.forward_features(self.prepare(images)), pre_logits=True)

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Final features, and the class token after each of `blocks` (1-based) through the final norm."""
        for block in blocks:
            check_block(block, self.depth)
        if not blocks:
            return self(images), {}
        final: Any
        final, tokens = self.trunk.forward_intermediates(
            self.prepare(images),
            indices=[block - 1 for block in blocks],
            norm=True,
            return_prefix_tokens=True,
            output_fmt="NLC",
        )
        layers = {}
        for block, (patches, prefix) in zip(sorted(blocks), tokens, strict=True):
            has_class_token = self.trunk.num_prefix_tokens > 0
            layers[block] = prefix[:, 0] if has_class_token else patches.mean(1)
        return self.trunk.forward_head(final, pre_logits=True), layers


def _sized(config: BackboneConfig) -> VisionTransformer:
    stems = {"patch": PatchEmbed, "conv": ConvStem}
    if config.stem not in stems:
        raise InputError(f"backbone.stem must be one of {', '.join(stems)}; got '{config.stem}'.")
    if config.stem == "conv" and config.patch_size not in (2, 4, 8, 16):
        raise InputError(f"backbone.stem=conv needs a patch_size of 2, 4, 8 or 16; got {config.patch_size}.")
    if config.image_size % config.patch_size:
        raise InputError(
            f"backbone.image_size {config.image_size} is not a multiple of backbone.patch_size {config.patch_size}."
        )
    if config.embed_dim % config.num_heads:
        raise InputError(
            f"backbone.embed_dim {config.embed_dim} is not a multiple of backbone.num_heads {config.num_heads}."
        )
    return VisionTransformer(
        img_size=config.image_size,
        patch_size=config.patch_size,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_ratio,
        drop_path_rate=config.drop_path,
        num_classes=0,
        embed_layer=stems[config.stem],
    )


def _named(config: BackboneConfig) -> VisionTransformer:
    try:
        trunk = timm.create_model(
            config.name, pretrained=config.pretrained, num_classes=0, drop_path_rate=config.drop_path
        )
    except RuntimeError as error:
        raise InputError(
            f"timm cannot build '{config.name}': {error}. `timm.list_models('vit*')` names its ViTs."
        ) from None
    except Exception as error:  # timm raises many kinds when weights cannot be fetched
        raise InputError(
            f"The weights of '{config.name}' could not be loaded ({type(error).__name__}); "
            f"check the network or set backbone.pretrained=false."
        ) from error
    if not isinstance(trunk, VisionTransformer):
        raise InputError(
            f"'{config.name}' is not a vision transformer of timm; choose one of timm.list_models('vit*')."
        )
    return trunk

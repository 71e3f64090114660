"""timm's vision transformer as a feature extractor: class-token features after chosen blocks, through the final norm.

Paper, section 4.1 and appendix A2.
"""

from collections.abc import Sequence
from typing import Any

import timm
import torch
from timm.layers import Mlp, PatchEmbed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.conv_mlp import ConvMlp
from fscil.backbones.stem import ConvStem, ResidualStem
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError

STEMS = {"patch": PatchEmbed, "conv": ConvStem, "residual": ResidualStem}
MLPS = {"plain": Mlp, "conv": ConvMlp}
POOLS: dict[str, Any] = {"token": "token", "mean": "avg"}  # by timm's names


class _Trunk(VisionTransformer):
    """timm's, with the tokens kept in the type the stem gives them: under autocast in half precision.

    Adding the float32 position embedding would make the whole residual stream float32, twice the memory traffic.
    """

    def _pos_embed(self, x: Tensor) -> Tensor:
        return super()._pos_embed(x).to(x.dtype)


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

    def forward_normalised(self, images: Tensor) -> Tensor:
        return self.trunk.forward_head(self.trunk.forward_features(images), pre_logits=True)

    def forward_until(self, images: Tensor, stage: int) -> Tensor:
        """The tokens (n, tokens, dim) after block `stage`."""
        trunk = self.trunk
        x = trunk.norm_pre(trunk.patch_drop(trunk._pos_embed(trunk.patch_embed(self.prepare(images)))))
        return trunk.blocks[: self.checked(stage)](x)

    def forward_from(self, inner: Tensor, stage: int) -> Tensor:
        tokens = self.trunk.blocks[self.checked(stage) :](inner)
        return self.trunk.forward_head(self.trunk.norm(tokens), pre_logits=True)

    def last_block(self) -> nn.Module:
        return self.trunk.blocks[-1]

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Final features, and those after each of `blocks` (1-based): through the final norm, pooled likewise."""
        for block in blocks:
            check_block(block, self.depth)
        if not blocks:
            return self(images), {}
        has_class_token = self.trunk.num_prefix_tokens > 0
        final: Any
        tokens: Any
        final, tokens = self.trunk.forward_intermediates(
            self.prepare(images),
            indices=[block - 1 for block in blocks],
            norm=True,
            return_prefix_tokens=has_class_token,
            output_fmt="NLC",
        )
        pooled = [given[1][:, 0] if has_class_token else given.mean(1) for given in tokens]
        layers = dict(zip(sorted(blocks), pooled, strict=True))
        return self.trunk.forward_head(final, pre_logits=True), layers


def _sized(config: BackboneConfig) -> VisionTransformer:
    if config.stem not in STEMS:
        raise InputError(f"backbone.stem={config.stem} belongs to resnet18; a vit has one of {', '.join(STEMS)}.")
    if config.stem != "patch" and config.patch_size not in (2, 4, 8, 16):
        raise InputError(f"backbone.stem={config.stem} needs a patch_size of 2, 4, 8 or 16; got {config.patch_size}.")
    if config.image_size % config.patch_size:
        raise InputError(
            f"backbone.image_size {config.image_size} is not a multiple of backbone.patch_size {config.patch_size}."
        )
    if config.embed_dim % config.num_heads:
        raise InputError(
            f"backbone.embed_dim {config.embed_dim} is not a multiple of backbone.num_heads {config.num_heads}."
        )
    return _Trunk(
        img_size=config.image_size,
        patch_size=config.patch_size,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_ratio,
        drop_path_rate=config.drop_path,
        num_classes=0,
        embed_layer=STEMS[config.stem],
        mlp_layer=MLPS[config.mlp],
        class_token=config.pool == "token",
        global_pool=POOLS[config.pool],
        fc_norm=False,  # norm, then pool, for every layer alike
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

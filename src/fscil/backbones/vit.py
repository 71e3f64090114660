"""A vision transformer as a feature extractor: class-token features after chosen blocks, through the final norm.

Paper, section 4.1 and appendix A2.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.conv_mlp import ConvMlp
from fscil.backbones.stem import ConvStem, ResidualStem
from fscil.backbones.transformer import PatchEmbedding, PlainMlp, Transformer
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError

STEMS = {"patch": PatchEmbedding, "conv": ConvStem, "residual": ResidualStem}
MLPS = {"plain": PlainMlp, "conv": ConvMlp}


class ViT(Backbone):
    """A transformer of the sizes in the config or, by its name, one of timm's, without head."""

    def __init__(self, config: BackboneConfig, named: nn.Module | None = None) -> None:
        trunk: Any = named or (_named(config) if config.name else _sized(config))
        super().__init__(int(trunk.patch_embed.img_size[0]), int(trunk.embed_dim), len(trunk.blocks))
        self.trunk = trunk
        if config.pretrained:
            from fscil.backbones.named import input_statistics, source

            self.mean, self.std = input_statistics(config, trunk)
            self.pretraining = source(config, trunk)

    def forward_normalised(self, images: Tensor) -> Tensor:
        return self._final(self.trunk.blocks(self.enter(images)))

    def forward_until(self, images: Tensor, stage: int) -> Tensor:
        """The tokens (n, tokens, dim) after block `stage`."""
        return self.trunk.blocks[: self.checked(stage)](self.enter(self.prepare(images)))

    def forward_from(self, inner: Tensor, stage: int) -> Tensor:
        return self._final(self.trunk.blocks[self.checked(stage) :](inner))

    def enter(self, images: Tensor) -> Tensor:
        """Tokens of normalised images, before the first block."""
        trunk = self.trunk
        if isinstance(trunk, Transformer):
            return trunk.embed(images)
        return trunk.norm_pre(trunk.patch_drop(trunk._pos_embed(trunk.patch_embed(images))))

    def row(self) -> nn.Sequential:
        return self.trunk.blocks

    def last_block(self) -> nn.Module:
        return self.trunk.blocks[-1]

    def layer_module(self, layer: int) -> nn.Module:
        check_block(layer, self.depth)
        found: nn.Module = self.trunk.blocks[layer - 1]
        return found

    def forward_layers(self, images: Tensor, blocks: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Final features, and those after each of `blocks` (1-based): through the final norm, pooled likewise."""
        for block in blocks:
            check_block(block, self.depth)
        tokens, layers = self.enter(self.prepare(images)), {}
        for number, block in enumerate(self.trunk.blocks, start=1):
            tokens = block(tokens)
            if number in blocks:
                normed = self.trunk.norm(tokens)
                layers[number] = normed[:, 0] if self.trunk.num_prefix_tokens else normed.mean(1)
        return self._final(tokens), layers

    def _final(self, tokens: Tensor) -> Tensor:
        """Features, from the tokens after the last block."""
        trunk, normed = self.trunk, self.trunk.norm(tokens)
        return trunk.pool(normed) if isinstance(trunk, Transformer) else trunk.forward_head(normed, pre_logits=True)


def _sized(config: BackboneConfig) -> Transformer:
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
    return Transformer(
        STEMS[config.stem],
        MLPS[config.mlp],
        image_size=config.image_size,
        patch_size=config.patch_size,
        dim=config.embed_dim,
        depth=config.depth,
        heads=config.num_heads,
        mlp_ratio=config.mlp_ratio,
        drop_path=config.drop_path,
        class_token=config.pool == "token",
    )


def _named(config: BackboneConfig) -> Any:
    # timm takes longer to import than torch, and only networks that are asked for by name need it
    from timm.models.vision_transformer import VisionTransformer

    from fscil.backbones.named import created

    trunk = created(config)
    if not isinstance(trunk, VisionTransformer):
        raise InputError(
            f"'{config.name}' is no vision transformer (timm.list_models('vit*')); set backbone.kind=timm."
        )
    return trunk

"""The small transformers are timm's in all but the time that it takes to import it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from timm.layers import Mlp, PatchEmbed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from fscil.backbones import ViT
from fscil.backbones.conv_mlp import ConvMlp
from fscil.backbones.stem import ConvStem, ResidualStem
from fscil.core.config import BackboneConfig

CONFIG = BackboneConfig(
    image_size=16, patch_size=4, embed_dim=16, depth=3, num_heads=2, mlp_ratio=2.5, drop_path=0.5
)  # fmt: skip
STEMS = {"patch": PatchEmbed, "conv": ConvStem, "residual": ResidualStem}
MLPS = {"plain": Mlp, "conv": ConvMlp}


def of_timm(config: BackboneConfig) -> VisionTransformer:
    stem, mlp = STEMS[config.stem], MLPS[config.mlp]

    def make_stem(**given: Any) -> nn.Module:
        return stem(**{key: given[key] for key in ("img_size", "patch_size", "in_chans", "embed_dim")})

    def make_mlp(**given: Any) -> nn.Module:
        return mlp(given["in_features"], given["hidden_features"])

    return VisionTransformer(
        img_size=config.image_size,
        patch_size=config.patch_size,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_ratio,
        drop_path_rate=config.drop_path,
        num_classes=0,
        embed_layer=make_stem,
        mlp_layer=make_mlp,
        class_token=config.pool == "token",
        global_pool="token" if config.pool == "token" else "avg",
        fc_norm=False,
    )


def both(config: BackboneConfig) -> tuple[ViT, VisionTransformer]:
    torch.manual_seed(3)
    ours = ViT(config)
    torch.manual_seed(3)
    return ours, of_timm(config)


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("mlp", MLPS)
@pytest.mark.parametrize("pool", ["token", "mean"])
def test_first_weights_features_layers_and_gradients_are_those_of_timm(stem: Any, mlp: Any, pool: Any) -> None:
    ours, theirs = both(dataclasses.replace(CONFIG, stem=stem, mlp=mlp, pool=pool))
    weights, expected = ours.trunk.state_dict(), theirs.state_dict()
    assert list(weights) == list(expected)
    assert all(torch.equal(weights[key], value) for key, value in expected.items())

    with torch.no_grad():  # first weights are so small that attention hardly matters
        for mine, their in zip(ours.trunk.parameters(), theirs.parameters(), strict=True):
            if mine.ndim == 2:
                mine.mul_(20)
                their.mul_(20)
    images = torch.randn(5, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for training in (True, False):  # with paths left out at random, and without
        ours.train(training)
        theirs.train(training)
        outputs = []
        for network in (ours.forward_normalised, lambda x: theirs.forward_head(theirs.forward_features(x))):
            torch.manual_seed(1)
            outputs.append(network(images))
        torch.testing.assert_close(*outputs)
    final, layers = ours.forward_layers(images * ours.std + ours.mean, (1, 3))
    expected_final, inner = theirs.forward_intermediates(
        images, [0, 2], norm=True, return_prefix_tokens=True, output_fmt="NLC"
    )
    torch.testing.assert_close(final, theirs.forward_head(expected_final))
    for block, given in zip((1, 3), inner, strict=True):
        token = given[1][:, 0] if pool == "token" else given.mean(1)
        torch.testing.assert_close(layers[block], token)

    for output in outputs:
        (output * torch.arange(16.0).cos()).sum().backward()
    for (name, mine), their in zip(ours.trunk.named_parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None, name
        torch.testing.assert_close(mine.grad, their.grad, msg=name)


def test_the_stream_keeps_the_type_of_the_stem() -> None:
    """Adding the float32 embedding of the places would make it float32, which is twice the memory traffic."""
    network = ViT(CONFIG).eval()
    seen: list[Tensor] = []
    network.trunk.blocks[0].register_forward_pre_hook(lambda block, given: seen.append(given[0]))
    with torch.autocast("cpu", torch.bfloat16):
        network(torch.zeros(2, 3, 16, 16))
    assert [tokens.dtype for tokens in seen] == [torch.bfloat16]

"""Stems, convolution in the MLP, and pooling: each against a plain computation by hand."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from fscil.backbones import ViT, build_backbone
from fscil.backbones.conv_mlp import ConvMlp
from fscil.core import config as configs
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError

SMALL = BackboneConfig(image_size=16, patch_size=4, embed_dim=16, depth=3, num_heads=2)


def images(count: int = 3) -> torch.Tensor:
    return torch.randint(0, 256, (count, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("extra", [0, 1])
def test_the_convolution_sees_neighbours_on_the_grid_and_no_class_token(extra: int) -> None:
    mlp = ConvMlp(8, 12)
    x = torch.randn(2, extra + 9, 8)
    hidden = mlp.fc1(x)
    grid = hidden[:, extra:].reshape(2, 3, 3, 12)
    padded = F.pad(grid, (0, 0, 1, 1, 1, 1))
    mixed = grid.clone() + mlp.depthwise.bias
    for i in range(3):
        for j in range(3):
            mixed = mixed + padded[:, i : i + 3, j : j + 3] * mlp.depthwise.weight[:, 0, i, j]
    expected = mlp.fc2(F.gelu(torch.cat([hidden[:, :extra], mixed.reshape(2, 9, 12)], 1)))
    assert torch.allclose(mlp(x), expected, atol=1e-5)


@pytest.mark.parametrize("stem", ["patch", "conv", "residual"])
@pytest.mark.parametrize("mlp", ["plain", "conv"])
@pytest.mark.parametrize("pool", ["token", "mean"])
def test_every_combination_gives_features_and_layers(stem: str, mlp: str, pool: str) -> None:
    network = build_backbone(dataclasses.replace(SMALL, stem=stem, mlp=mlp, pool=pool)).eval()
    final, layers = network.forward_layers(images(), (1, 3))
    assert final.shape == layers[1].shape == (3, 16)
    assert torch.allclose(final, layers[3], atol=1e-6)  # the last block's features are the final ones
    assert torch.allclose(final, network(images()), atol=1e-6)


def test_mean_pooling_is_the_mean_of_the_normed_patches() -> None:
    network = build_backbone(dataclasses.replace(SMALL, pool="mean")).eval()
    assert isinstance(network, ViT)
    trunk = network.trunk
    x = trunk.patch_embed(network.prepare(images())) + trunk.pos_embed
    for block in trunk.blocks:
        x = block(x)
    assert torch.allclose(network(images()), trunk.norm(x).mean(1), atol=1e-5)


def test_a_residual_stem_reads_the_image_at_full_size_first() -> None:
    network = build_backbone(dataclasses.replace(SMALL, stem="residual"))
    assert isinstance(network, ViT)
    stem = network.trunk.patch_embed
    sizes = []
    x = network.prepare(images())
    for layer in stem.layers:
        x = layer(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes[0] == (4, 16, 16)
    assert sizes[-1] == (16, 4, 4)


def test_the_cifar_network_stays_below_twelve_million_parameters() -> None:
    network = build_backbone(configs.load("cifar100_yourself").backbone)
    assert 9e6 < sum(p.numel() for p in network.parameters()) < 12e6


@pytest.mark.parametrize("key", ["stem", "mlp", "pool"])
def test_unknown_parts_are_refused(key: str) -> None:
    with pytest.raises(InputError, match=f"backbone.{key} must be"):
        build_backbone(dataclasses.replace(SMALL, **{key: "none"}))

"""ResNet-18 and ResNet-20: published sizes, wiring against timm, and the cut between stages."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import timm
import torch

from fscil.backbones import build_backbone
from fscil.backbones.extract import extract
from fscil.core import config as configs
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError
from fscil.data import load_benchmark
from fscil.training.loop import train_base


def size(kind: str, stem: str = "patch") -> int:
    return sum(p.numel() for p in build_backbone(BackboneConfig(kind=kind, stem=stem)).parameters())


def test_parameter_counts_are_the_published_ones() -> None:
    assert size(kind="resnet20") == 271_824
    assert size(kind="resnet18") == 11_168_832
    assert size(kind="resnet18", stem="imagenet") == 11_176_512


def test_resnet18_against_timm() -> None:
    ours = build_backbone(BackboneConfig(kind="resnet18", stem="imagenet", image_size=64)).eval()
    theirs = timm.create_model("resnet18", num_classes=0).eval()
    # Both list their layers in the order of the forward pass; ours has the pixel statistics in front.
    mine = {name: value for name, value in ours.state_dict().items() if name not in ("mean", "std")}
    for (name, value), other in zip(mine.items(), theirs.state_dict().values(), strict=True):
        assert value.shape == other.shape, name
        value.copy_(torch.rand_like(value) * 0.1 if value.is_floating_point() else value)
        other.copy_(value)
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(ours.prepare(images)), rtol=1e-4)


def test_resnet20_maps_and_features() -> None:
    network = build_backbone(BackboneConfig(kind="resnet20")).eval()
    images = torch.randint(0, 256, (3, 32, 32, 3), dtype=torch.uint8)
    shapes = [tuple(network.forward_until(images, stage).shape[1:]) for stage in range(4)]
    assert shapes == [(16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 8, 8)]
    features = extract(network, images).final
    assert features.shape == (3, 64)
    assert (features >= 0).all()  # the last ReLU is kept
    with pytest.raises(InputError, match="ResNet-20 gives no intermediate features"):
        extract(network, images, (1,))


@pytest.mark.parametrize("kind", ["resnet18", "resnet20"])
def test_signed_features_are_the_map_before_the_last_relu(kind: str) -> None:
    networks = [build_backbone(BackboneConfig(kind=kind, signed=signed)).eval() for signed in (False, True)]
    networks[1].load_state_dict(networks[0].state_dict())
    images, maps = torch.rand(2, 3, 32, 32), []
    for network in networks:
        seen = network.last_block().register_forward_hook(lambda _, __, out: maps.append(out))
        with torch.no_grad():
            features = network(images)
        seen.remove()
        assert torch.allclose(features, maps[-1].mean((2, 3)), atol=1e-6)
    assert torch.equal(maps[1].relu(), maps[0])
    assert (maps[1] < 0).any()
    assert len(list(networks[1].last_stage().children())) == (3 if kind == "resnet20" else 2)


@pytest.mark.parametrize("kind", ["vit", "resnet12", "resnet18", "resnet20"])
def test_a_forward_pass_can_be_cut_after_every_stage(kind: str) -> None:
    network = build_backbone(BackboneConfig(kind=kind, depth=3)).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        whole = network(images)
        for stage in range(network.stages + 1):
            assert torch.allclose(network.forward_from(network.forward_until(images, stage), stage), whole, atol=1e-6)
    for stage in (-1, network.stages + 1):
        with pytest.raises(InputError, match=f"after stages 0 to {network.stages}"):
            network.forward_until(images, stage)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    # Two 3x3 convolutions and two norms; three of them, a 1x1 one and four norms.
    [("resnet20", 73_984), ("resnet18", 4_720_640), ("resnet12", 320 * 640 * 10 + 2 * 640**2 * 9 + 8 * 640)],
)
def test_the_last_block_is_the_last_residual_one(kind: str, parameters: int) -> None:
    network = build_backbone(BackboneConfig(kind=kind, image_size=16))  # type: ignore[arg-type]
    block = network.last_block()
    assert sum(p.numel() for p in block.parameters()) == parameters
    seen: list[torch.Tensor] = []
    block.register_forward_hook(lambda module, given, made: seen.append(made))
    final = network.eval()(torch.rand(2, 3, 16, 16))
    assert torch.allclose(seen[0].mean((2, 3)), final)  # nothing but the mean comes after it


def test_the_last_block_of_a_vit_is_behind_its_last_cut() -> None:
    network = build_backbone(BackboneConfig(depth=3)).eval()
    calls: list[int] = []
    network.last_block().register_forward_hook(lambda *given: calls.append(1))
    inner = network.forward_until(torch.rand(2, 3, 32, 32), network.stages - 1)
    assert not calls
    network.forward_from(inner, network.stages - 1)
    assert calls == [1]


def test_joined_networks_have_no_last_block() -> None:
    parts = (BackboneConfig(depth=2), BackboneConfig(depth=2))
    with pytest.raises(InputError, match="Joined has no last block of its own"):
        build_backbone(BackboneConfig(kind="joined", parts=parts)).last_block()


def test_what_is_not_there_is_refused() -> None:
    for kind in ("resnet18", "resnet20"):
        with pytest.raises(InputError, match="trained from scratch"):
            build_backbone(BackboneConfig(kind=kind, pretrained=True))


@pytest.mark.parametrize("kind", ["resnet18", "resnet20"])
def test_it_trains(kind: str, tmp_path: Path) -> None:
    options = [f"backbone.kind={kind}", "train.optimizer=sgd", "train.lr=0.05", "train.epochs=2"]
    config = configs.load("digits", options)
    session = load_benchmark(config.data).session(0)
    keep = torch.arange(0, len(session), 5)
    assert session.images is not None
    session = dataclasses.replace(session, images=session.images[keep], labels=session.labels[keep])
    losses = train_base(session, config, tmp_path).info["losses"]
    assert losses[-1] < losses[0]

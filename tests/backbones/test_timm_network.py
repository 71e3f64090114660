"""Networks of timm by name: stages against hooks in plain loops, ViTs as before, refusals in one sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch

from fscil.backbones import ViT, build_backbone, depth_of
from fscil.backbones.extract import extract
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError
from fscil.core.weights_packages import BY_NETWORK
from fscil.evaluation.features import FeatureCache

IMAGES = torch.randint(0, 256, (3, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LITE = BY_NETWORK["tf_efficientnet_lite0"]


def named(name: str, **settings: Any) -> BackboneConfig:
    return BackboneConfig(**{"kind": "timm", "name": name, "image_size": 32, **settings})


@pytest.mark.parametrize("name", ["test_resnet", "resnet10t", "test_efficientnet", "test_convnext"])
def test_layers_are_the_means_of_what_the_stages_give(name: str) -> None:
    network = build_backbone(named(name)).eval()
    model: Any = network.model
    wanted: dict[int, np.ndarray] = {}

    def remember(number: int) -> Any:
        def hook(module: Any, given: Any, made: torch.Tensor) -> None:
            wanted[number] = made.numpy()

        return hook

    for number, stage in enumerate(model.feature_info, start=1):
        model.get_submodule(stage["module"]).register_forward_hook(remember(number))
    with torch.no_grad():
        final = model(network.prepare(IMAGES))
    given = dict(wanted)  # of this pass, before the next
    view = extract(network, IMAGES, tuple(given))
    assert len(given) == network.depth == depth_of(named(name)) >= 4
    assert torch.allclose(view.final, final, atol=1e-5)
    assert view.final.shape[1] == network.dim
    for number, maps in given.items():
        for row, image in enumerate(maps):
            for channel, plane in enumerate(image):
                assert float(view.layers[number][row, channel]) == pytest.approx(plane.mean(), abs=1e-4)
    assert len({x.shape[1] for x in view.layers.values()}) > 2  # stages of other widths


def test_a_transformer_by_name_is_a_vit_with_its_blocks() -> None:
    torch.manual_seed(0)
    network = build_backbone(named("test_vit", image_size=160)).eval()
    assert isinstance(network, ViT)
    twin = build_backbone(named("test_vit", kind="vit"))
    twin.load_state_dict(network.state_dict())
    ours, theirs = extract(network, IMAGES, (2, 5)), extract(twin, IMAGES, (2, 5))
    assert torch.equal(ours.final, theirs.final)
    assert torch.equal(ours.layers[2], theirs.layers[2])
    assert depth_of(named("test_vit")) == depth_of(named("test_vit", kind="vit")) == network.depth == 6


def test_one_pass_stores_all_layers_of_a_network_whose_layers_are_narrow(tmp_path: Path) -> None:
    network = build_backbone(named("test_resnet")).eval()
    cache = FeatureCache(tmp_path, network)
    first = cache.get(IMAGES)
    assert first.layers == {}
    assert torch.equal(cache.get(IMAGES, (2, 4)).layers[4], extract(network, IMAGES, (4,)).layers[4])
    assert list(cache.get(IMAGES, (5,)).layers) == [5]
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InputError, match="blocks 1 to 5"):
        cache.get(IMAGES[:2], (6,))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (named(""), "needs backbone.name"),
        (named("resnett18"), "did you mean resnet18"),
        (named("tf_efficientnet_lite_0", pretrained=True), "tf_efficientnet_lite0"),
        (named("qqqqqqqq"), r"timm.list_models\(\)"),
        (named("resnett18", kind="vit"), "did you mean resnet18"),
        (named("test_resnet", kind="vit"), "set backbone.kind=timm"),
        (named("resnet10t.a9", pretrained=True), "resnet10t.c3_in1k"),
        (named("mixer_s32_224"), "set backbone.image_size, for example to 224"),
        (named("vgg11", drop_path=0.1, image_size=2), "timm cannot build 'vgg11'"),
    ],
)
def test_refusals_say_what_to_do(config: BackboneConfig, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        build_backbone(config)
    assert "\n" not in str(refused.value)


def test_weights_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_connection(*args: Any, **options: Any) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(timm, "create_model", no_connection)
    with pytest.raises(InputError, match=r"connect to the internet once, set backbone.pretrained=false, or take"):
        build_backbone(named("resnet10t", pretrained=True))


@pytest.mark.skipif(not LITE.installed(), reason="needs the extra photos")
def test_weights_of_a_package_with_the_pixels_they_were_trained_with(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_backbone(named(LITE.network, pretrained=True, image_size=64)).eval()
    stored = torch.load(LITE.path(), weights_only=True)
    own = {key: value for key, value in network.state_dict().items() if key.startswith("model.")}
    tensors = list(stored.values())[: len(own)]  # the classifier comes last
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(own.values(), tensors, strict=True))
    assert torch.allclose(network.prepare(torch.zeros(1, 64, 64, 3, dtype=torch.uint8)), torch.tensor(-1.0))
    damaged = dataclasses.replace(LITE, sha256="0" * 64)
    monkeypatch.setitem(BY_NETWORK, LITE.network, damaged)
    with pytest.raises(InputError, match="not the published file"):
        build_backbone(named(LITE.network, pretrained=True, image_size=64))

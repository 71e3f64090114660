"""How images are looked at outside training: enlarged, against torchvision's resize and crop, and mirrored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as one

from fscil.backbones import build_backbone
from fscil.backbones.extract import extract
from fscil.core.config import BackboneConfig, Config, TrainConfig, to_dict
from fscil.core.errors import InputError
from fscil.evaluation.features import FeatureCache
from fscil.training.checkpoint import Classifier, load_classifier, save_classifier

ZOOMED = BackboneConfig(kind="resnet20", test_zoom=1.125)


def pictures() -> Tensor:
    return torch.randint(0, 256, (4, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_outside_training_the_middle_of_an_enlarged_image_is_seen() -> None:
    network = build_backbone(ZOOMED).eval()
    x = pictures().permute(0, 3, 1, 2) / 255
    larger = one.resize(x, [36, 36], InterpolationMode.BICUBIC, antialias=False)
    expected = (one.center_crop(larger, [32, 32]) - network.mean) / network.std
    assert torch.allclose(network.prepare(pictures()), expected, atol=1e-5)


def test_in_training_images_are_as_they_are() -> None:
    network = build_backbone(ZOOMED).train()
    x = pictures().permute(0, 3, 1, 2) / 255
    assert torch.equal(network.prepare(x), (x - network.mean) / network.std)


def test_the_zoom_travels_with_the_checkpoint_and_features_know_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    classifier = Classifier(ZOOMED, TrainConfig(), 5).eval()
    info = {"config": to_dict(Config(backbone=ZOOMED)), "outputs": 5, "classes": 5}
    save_classifier(tmp_path / "backbone.safetensors", classifier, info)
    loaded = load_classifier(tmp_path).backbone
    assert torch.equal(loaded(pictures()), classifier.backbone(pictures()))
    zoomed = FeatureCache(tmp_path, loaded).get(pictures()).final
    loaded.test_zoom = 1.0
    plain = FeatureCache(tmp_path, loaded).get(pictures()).final
    assert not torch.allclose(zoomed, plain)  # not the first ones from the cache


def test_a_zoom_below_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"backbone\.test_zoom must be a number of at least 1; got 0\.5"):
        build_backbone(BackboneConfig(test_zoom=0.5))


def test_features_over_the_mirror_image_are_a_mean_and_do_not_tell_left_from_right(tmp_path: Path) -> None:
    torch.manual_seed(0)
    small = BackboneConfig(embed_dim=16, depth=3, num_heads=2)
    plain = build_backbone(small).eval()
    mirrored = build_backbone(replace(small, test_mirror=True)).eval()
    mirrored.load_state_dict(plain.state_dict())
    images = pictures()
    flipped = torch.stack([one.hflip(image.permute(2, 0, 1)).permute(1, 2, 0) for image in images])
    both, straight, turned = (
        extract(mirrored, images, (2,)),
        extract(plain, images, (2,)),
        extract(plain, flipped, (2,)),
    )
    assert not torch.allclose(straight.final, turned.final, atol=1e-3)
    assert torch.allclose(both.final, (straight.final + turned.final) / 2, atol=1e-5)
    assert torch.allclose(both.layers[2], (straight.layers[2] + turned.layers[2]) / 2, atol=1e-5)
    assert torch.allclose(extract(mirrored, flipped).final, both.final, atol=1e-5)
    cached = [FeatureCache(tmp_path, network).get(images).final for network in (plain, mirrored)]
    assert not torch.allclose(cached[0], cached[1])  # the cache tells them apart, though the weights are the same


def test_pixels_are_measured_as_numpy_measures_them() -> None:
    images = torch.randint(0, 256, (7, 5, 9, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    images[..., 2] = 30 + images[..., 2] // 4
    images[..., 1] = 77  # one value alone: no division by zero
    network = build_backbone(BackboneConfig(kind="resnet20"))
    network.measure_pixels(images)
    values = images.numpy().reshape(-1, 3) / 255
    assert network.mean.flatten().tolist() == pytest.approx(values.mean(0).tolist(), rel=1e-6)
    spread = values.std(0, ddof=1).clip(1e-3)
    assert network.std.flatten().tolist() == pytest.approx(spread.tolist(), rel=1e-6)


@pytest.mark.parametrize(("side", "most"), [(16, 500), (224, 91)])
def test_large_images_go_through_a_network_in_smaller_parts(side: int, most: int) -> None:
    class Counting(torch.nn.Module):
        image_size, test_mirror = 16, False

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(1))
            self.parts: list[int] = []

        def forward_layers(self, images: Tensor, blocks: object) -> tuple[Tensor, dict[int, Tensor]]:
            self.parts.append(len(images))
            return images.flatten(1)[:, :3].float(), {}

    images = torch.zeros(1, side, side, 3, dtype=torch.uint8).expand(501, -1, -1, -1)
    network = Counting()
    assert len(extract(network, images)) == 501  # type: ignore[arg-type]
    assert max(network.parts) == most
    assert sum(network.parts) == 501
    network.parts.clear()
    extract(network, images, batch_size=167)  # type: ignore[arg-type]
    assert network.parts == [167, 167, 167]

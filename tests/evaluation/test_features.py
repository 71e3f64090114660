"""Features on disk are those of their network and images: damage is noticed, and a changed network stores nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from fscil.backbones import ViT
from fscil.core.config import BackboneConfig
from fscil.data.session import View
from fscil.evaluation.features import FeatureCache
from fscil.training.checkpoint import read_tensors

BLOCKS, TRANSFORMS = (1,), ((1, 0), (2, 1))


def network(seed: int = 0) -> ViT:
    torch.manual_seed(seed)
    return ViT(BackboneConfig(image_size=8, patch_size=4, embed_dim=8, depth=2, num_heads=2)).eval()


IMAGES = torch.randint(0, 256, (3, 8, 8, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def same(one: View, other: View) -> bool:
    return torch.equal(one.final, other.final) and torch.equal(one.layers[1], other.layers[1])


def test_a_flipped_bit_anywhere_in_a_file_is_noticed(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path, network())
    wanted = cache.get(IMAGES, BLOCKS)
    (path,) = tmp_path.iterdir()
    whole, rng = path.read_bytes(), random.Random(0)
    header = 8 + int.from_bytes(whole[:8], "little")
    assert header < len(whole)
    places = [*range(8), *rng.sample(range(8, header), 150), *rng.sample(range(header, len(whole)), 150)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert same(cache.get(IMAGES, BLOCKS), wanted), place
    for cut in (0, 7, header - 1, header, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert same(cache.get(IMAGES, BLOCKS), wanted), cut


@pytest.mark.parametrize("change", ["a weight", "the zoom"])
def test_a_network_that_was_changed_stores_nothing_under_the_old_name(tmp_path: Path, change: str) -> None:
    backbone = network()
    cache = FeatureCache(tmp_path, backbone)
    before = cache.get(IMAGES, BLOCKS)
    if change == "a weight":
        with torch.no_grad():
            next(iter(backbone.parameters())).add_(1)
    else:
        backbone.test_zoom = 1.5
    with pytest.raises(RuntimeError, match="network was changed"):
        cache.get(IMAGES[:2], BLOCKS)
    assert len(list(tmp_path.iterdir())) == 1
    again = FeatureCache(tmp_path, network())
    assert same(again.get(IMAGES, BLOCKS), before)
    assert torch.allclose(again.get(IMAGES[:2], BLOCKS).final, before.final[:2], atol=1e-5)


def test_features_of_transformed_images_are_those_of_the_images_transformed(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path, network())
    view = cache.get(IMAGES, BLOCKS, TRANSFORMS)
    assert torch.equal(view.turned[1, 0], cache.get(IMAGES.rot90(1, (1, 2))).final)
    assert torch.equal(view.turned[2, 1], cache.get(IMAGES.rot90(2, (1, 2))[..., [1, 2, 0]]).final)
    assert len(list(tmp_path.iterdir())) == 3


def test_blocks_that_will_be_asked_for_later_cost_no_second_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone, passes = network(), []
    forward = backbone.forward_layers

    def counted(images: torch.Tensor, blocks: Sequence[int]) -> object:
        passes.append(tuple(blocks))
        return forward(images, blocks)

    monkeypatch.setattr(backbone, "forward_layers", counted)
    cache = FeatureCache(tmp_path, backbone, ahead=BLOCKS)
    assert cache.get(IMAGES).layers == {}  # nobody gets more than was asked for
    assert list(cache.get(IMAGES, BLOCKS).layers) == [1]
    assert passes == [(1,)]
    # What was not foreseen is added to the file, and what it had stays there.
    assert list(cache.get(IMAGES, (2,)).layers) == [2]
    assert passes == [(1,), (1, 2)]
    again = FeatureCache(tmp_path, network()).get(IMAGES, (1, 2))
    assert same(again, FeatureCache(None, network()).get(IMAGES, (1, 2)))
    assert len(passes) == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_transformed_images_are_stored_without_layers(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path, network(), ahead=BLOCKS)
    cache.get(IMAGES, (), TRANSFORMS)
    stored = sorted(sum(name.startswith("block") for name in read_tensors(path)[0]) for path in tmp_path.iterdir())
    assert stored == [0, 0, 1]

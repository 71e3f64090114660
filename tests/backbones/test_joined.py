"""Networks side by side: what each sees, cosines that are means of theirs, one file that stands alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones import build_backbone
from fscil.backbones.extract import extract
from fscil.core.config import BackboneConfig, Config, TrainConfig, load, to_dict
from fscil.core.errors import InputError
from fscil.data import load_benchmark
from fscil.training.checkpoint import Checkpoint, Classifier, load_classifier, save_classifier
from fscil.training.joining import join_networks
from fscil.training.loop import train_base

SMALL = BackboneConfig(embed_dim=16, depth=3, num_heads=2)


def pictures() -> Tensor:
    return torch.randint(0, 256, (6, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def network(path: Path, backbone: BackboneConfig, seed: int, data: str = "letters", head: str = "cosine") -> Checkpoint:
    torch.manual_seed(seed)
    train = TrainConfig(head=head)  # type: ignore[arg-type]
    classifier = Classifier(backbone, train, 5)
    classifier.backbone.measure_pixels(pictures() // (1 + seed))  # a normalisation of its own
    info = {"config": to_dict(Config(backbone=backbone, train=train)), "data": data, "outputs": 5, "classes": 5}
    save_classifier(path, classifier, info)
    return load_classifier(path)


def pair(folder: Path, one: BackboneConfig = SMALL, two: BackboneConfig = SMALL) -> tuple[Checkpoint, ...]:
    parts = [network(folder / f"{index}", kind, index) for index, kind in enumerate((one, two))]
    return (*parts, join_networks([folder / "0", folder / "1"], folder / "both"))


def test_cosines_are_the_mean_of_those_of_the_parts(tmp_path: Path) -> None:
    one, two, both = pair(tmp_path)

    def cosines(checkpoint: Checkpoint, block: int | None) -> Tensor:
        view = extract(checkpoint.backbone, pictures(), [2])
        x = F.normalize(view.final if block is None else view.layers[block], dim=-1)
        return x @ x.T

    for block in (None, 2):
        expected = (cosines(one, block) + cosines(two, block)) / 2
        assert torch.allclose(cosines(both, block), expected, atol=1e-5)


def test_the_head_says_the_mean_of_what_the_heads_say(tmp_path: Path) -> None:
    one, two, both = pair(tmp_path)
    expected = (one.classifier(pictures()) + two.classifier(pictures())) / 2
    assert torch.allclose(both.classifier(pictures()), expected, atol=1e-4)


def test_a_wider_part_weighs_more_and_no_length_counts(tmp_path: Path) -> None:
    one, two, both = pair(tmp_path, two=replace(SMALL, embed_dim=48))
    with torch.no_grad():
        two.backbone.trunk.norm.weight.mul_(7)  # type: ignore[union-attr, operator]
        both.backbone.parts[1].trunk.norm.weight.mul_(7)  # type: ignore[index, union-attr]
    parts = [F.normalize(extract(each.backbone, pictures()).final, dim=-1) for each in (one, two)]
    x = F.normalize(extract(both.backbone, pictures()).final, dim=-1)
    expected = (parts[0] @ parts[0].T + 3 * parts[1] @ parts[1].T) / 4
    assert torch.allclose(x @ x.T, expected, atol=1e-5)


def test_images_are_enlarged_and_mirrored_for_every_part(tmp_path: Path) -> None:
    one, _, both = pair(tmp_path)
    for each in (one, both):
        each.backbone.test_zoom, each.backbone.test_mirror = 1.25, True
    ours = extract(both.backbone, pictures()).final[:, : one.backbone.dim]
    theirs = [extract(one.backbone, each).final for each in (pictures(), pictures().flip(2))]
    one.backbone.test_mirror = False
    looks = [F.normalize(extract(one.backbone, each).final, dim=-1) for each in (pictures(), pictures().flip(2))]
    assert torch.allclose(ours / 4, sum(looks) / 2, atol=1e-5)  # type: ignore[arg-type]
    assert torch.allclose(theirs[0], theirs[1], atol=1e-5)


def test_networks_of_other_depths_have_final_features_alone(tmp_path: Path) -> None:
    _, _, both = pair(tmp_path, two=BackboneConfig(kind="resnet20"))
    assert both.backbone.depth == 0
    assert extract(both.backbone, pictures()).final.shape == (6, 16 + 64)
    with pytest.raises(InputError, match="Block 2 does not exist"):
        extract(both.backbone, pictures(), [2])


def test_what_cannot_be_joined_is_refused(tmp_path: Path) -> None:
    network(tmp_path / "letters", SMALL, 0)
    network(tmp_path / "birds", SMALL, 1, data="birds")
    network(tmp_path / "frame", SMALL, 1, head="etf")
    with pytest.raises(InputError, match="another base session"):
        join_networks([tmp_path / "letters", tmp_path / "birds"], tmp_path / "both")
    with pytest.raises(InputError, match="no head with one row per class"):
        join_networks([tmp_path / "letters", tmp_path / "frame"], tmp_path / "both")
    with pytest.raises(InputError, match="name at least two"):
        join_networks([tmp_path / "letters"], tmp_path / "both")
    with pytest.raises(InputError, match="make one with `fscil join`"):
        build_backbone(BackboneConfig(kind="joined"))
    assert not (tmp_path / "both").exists()


def test_joined_networks_are_not_trained(tmp_path: Path) -> None:
    config = load("cifar100_joined", ["data.name=digits", "data.shots=", "data.base=5", "data.way=1"])
    with pytest.raises(InputError, match="give it as --checkpoint"):
        train_base(load_benchmark(config.data).session(0), config, tmp_path)

"""train.frozen_layers: what stays to the last bit, what learns, and the pre-training that a checkpoint names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fscil.backbones import build_backbone
from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.pretraining import NONE, pretraining, together
from fscil.data import load_benchmark
from fscil.training.checkpoint import Classifier, load_classifier
from fscil.training.joining import join_networks
from fscil.training.loop import train_base

CNN = ("backbone.kind=timm", "backbone.name=test_resnet", "backbone.image_size=32")
VIT = ("backbone.embed_dim=16", "backbone.depth=3", "backbone.num_heads=2", "backbone.drop_path=0.5")
KINDS: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {  # settings, layers, first parts of what stays
    "timm": (CNN, 3, ("model.conv1", "model.bn1", "model.layer1", "model.layer2")),
    "vit": (VIT, 2, ("trunk.patch_embed", "trunk.cls_token", "trunk.pos_embed", "trunk.blocks.0", "trunk.blocks.1")),
    "resnet20": (("backbone.kind=resnet20",), 1, ("stem", "trunk.0")),
}


def digits(*overrides: str) -> configs.Config:
    quick = ["train.epochs=1", "train.batch_size=64", "train.warmup_epochs=0", "train.compile=off", "train.ema=0.5"]
    return configs.load("digits", [*quick, *overrides])


def train(config: configs.Config, folder: Path) -> dict[str, torch.Tensor]:
    train_base(load_benchmark(config.data).session(0), config, folder)
    return load_classifier(folder).backbone.state_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_layers_stay_to_the_last_bit_and_the_others_learn(kind: str, tmp_path: Path) -> None:
    settings, layers, stays = KINDS[kind]
    config = digits(*settings, f"train.frozen_layers={layers}", "train.weight_decay=0.1")
    torch.manual_seed(config.seed)
    start = Classifier(config.backbone, config.train, config.data.base).backbone.state_dict()
    found = train(config, tmp_path)
    pixels = {"mean", "std"}
    alike = {name for name, value in found.items() if torch.equal(value, start[name])} - pixels
    frozen = {name for name in found if name.startswith(tuple(f"{part}." for part in stays)) or name in stays}
    assert frozen
    assert frozen <= alike  # weights, statistics and their counts
    learned = set(found) - frozen - pixels
    still = {name for name in learned & alike if "num_batches" not in name}
    assert len(still) < 0.2 * len(learned), still


def test_layers_that_are_not_there_cannot_be_frozen(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="blocks 1 to 5"):
        train(digits(*CNN, "train.frozen_layers=6"), tmp_path)


def test_a_checkpoint_names_what_its_network_was_pretrained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    made: Any = timm.create_model

    def from_the_hub(name: str, pretrained: bool = False, **options: Any) -> Any:
        return made(name, pretrained=False, **options)

    monkeypatch.setattr(timm, "create_model", from_the_hub)
    nothing = ("train.epochs=0",)
    plain, before = digits(*CNN, *nothing), digits(*CNN, "backbone.pretrained=true", *nothing)
    train(plain, tmp_path / "plain")
    train(before, tmp_path / "before")
    train(digits(*CNN, *nothing, f"train.teacher={tmp_path / 'before'}"), tmp_path / "taught")
    join_networks([tmp_path / "plain", tmp_path / "before"], tmp_path / "joined.safetensors")
    tag = made("test_resnet").pretrained_cfg["tag"]
    expected = {
        "plain": NONE,
        "before": f"timm: test_resnet.{tag}",
        "taught": f"none; its teacher: timm: test_resnet.{tag}",
        "joined.safetensors": f"none + timm: test_resnet.{tag}",
    }
    for file, source in expected.items():
        assert load_classifier(tmp_path / file).info["pretraining"] == source
    again = build_backbone(before.backbone)
    assert torch.allclose(again.mean.flatten(), torch.tensor(made("test_resnet").pretrained_cfg["mean"]))


def test_older_files_say_it_by_their_config() -> None:
    assert pretraining({}) == pretraining({"config": {"backbone": {"kind": "vit"}}}) == NONE
    assert pretraining({"config": {"backbone": {"pretrained": True, "name": "vit_x"}}}) == "timm's weights of vit_x"
    assert pretraining({"pretraining": "a", "config": {"backbone": {"pretrained": True, "name": "b"}}}) == "a"
    assert together({"": NONE, "its teacher": NONE}) == NONE
    assert together({"": "a", "its teacher": NONE}) == "a"

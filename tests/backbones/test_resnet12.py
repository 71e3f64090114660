"""ResNet-12: the published size and wiring, and its use as a teacher of a ViT."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from fscil.backbones import ResNet12, build_backbone
from fscil.backbones.extract import extract
from fscil.core import config as configs
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError
from fscil.data import load_benchmark
from fscil.experiments.run import Run
from fscil.training.checkpoint import load_classifier
from fscil.training.loop import train_base

SMALL = ["backbone.kind=resnet12", "backbone.image_size=16", "train.optimizer=sgd", "train.lr=0.05", "train.epochs=2"]


def test_parameter_count_is_the_published_one() -> None:
    assert sum(p.numel() for p in ResNet12(BackboneConfig(image_size=32)).parameters()) == 12_424_320


def test_a_block_against_the_formula() -> None:
    block = ResNet12(BackboneConfig(image_size=16)).eval().blocks[0]
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        y = x
        for place in range(3):
            y = F.conv2d(y, block.convolutions[place].weight, padding=1)
            y = block.norms[place](y)
            y = torch.where(y > 0, y, 0.1 * y) if place < 2 else y
        y = y + block.shortcut[1](F.conv2d(x, block.shortcut[0].weight))
        y = F.max_pool2d(torch.where(y > 0, y, 0.1 * y), 2)
        assert torch.allclose(block(x), y, atol=1e-5)


def test_features_have_the_last_width_and_no_layers() -> None:
    network = ResNet12(BackboneConfig(image_size=32)).eval()
    images = torch.randint(0, 256, (3, 20, 20, 3), dtype=torch.uint8)
    assert extract(network, images).final.shape == (3, 640)
    with pytest.raises(InputError, match="no intermediate features"):
        extract(network, images, (1,))


def test_unknown_kinds_and_tiny_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'resnet"):
        BackboneConfig(kind="resnet")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="below 16"):
        build_backbone(BackboneConfig(kind="resnet12", image_size=8))
    with pytest.raises(InputError, match="needs intermediate layers"):
        Run.open(configs.load("digits", SMALL), tmp_path / "x")
    with pytest.raises(InputError, match="adamw, sgd or lars"):
        configs.load("digits", [*SMALL, "train.optimizer=adam"])


@pytest.mark.slow
def test_it_trains_resumes_and_teaches(tmp_path: Path) -> None:
    config = configs.load("digits", SMALL)
    saving = configs.load("digits", [*SMALL, "train.checkpoint_seconds=0"])
    session = load_benchmark(config.data).session(0)
    keep = torch.arange(0, len(session), 5)  # a fifth of the images is enough and takes seconds
    assert session.images is not None
    session = dataclasses.replace(session, images=session.images[keep], labels=session.labels[keep])
    teacher = train_base(session, config, tmp_path / "teacher")
    assert teacher.info["losses"][-1] < teacher.info["losses"][0]

    class CutError(Exception):
        pass

    def cut(done: int, total: int) -> None:
        if done == 3:
            raise CutError

    with pytest.raises(CutError):
        train_base(session, saving, tmp_path / "cut", progress=cut)
    train_base(session, config, tmp_path / "cut", resume=True)
    whole, again = (load_classifier(tmp_path / name).classifier.state_dict() for name in ("teacher", "cut"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)  # BatchNorm's statistics too
    student = configs.load("digits", [f"train.teacher={tmp_path / 'teacher'}", "train.epochs=1"])
    losses = train_base(session, student, tmp_path / "student").info["losses"]
    assert all(loss == loss for loss in losses)

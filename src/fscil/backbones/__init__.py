"""Networks that turn images into features."""

from __future__ import annotations

from collections.abc import Callable

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.cosine import CosineHead
from fscil.backbones.etf import EtfHead
from fscil.backbones.resnet import ResNet, resnet18, resnet20
from fscil.backbones.resnet12 import ResNet12
from fscil.backbones.vit import ViT
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError, nearest

KINDS: dict[str, Callable[[BackboneConfig], Backbone]] = {
    "vit": ViT,
    "resnet12": ResNet12,
    "resnet18": resnet18,
    "resnet20": resnet20,
}


def build_backbone(config: BackboneConfig) -> Backbone:
    if config.kind not in KINDS:
        raise InputError(f"There is no backbone.kind '{config.kind}'; {nearest(config.kind, KINDS)}")
    if config.test_zoom < 1:
        raise InputError(f"backbone.test_zoom enlarges images, so it is 1 or more; got {config.test_zoom}.")
    backbone = KINDS[config.kind](config)
    backbone.test_zoom = config.test_zoom
    return backbone


def build_head(train: TrainConfig, dim: int, classes: int) -> CosineHead | EtfHead:
    """The classifier that base training puts on features of width `dim`."""
    if train.head == "cosine":
        return CosineHead(dim, classes, train.logit_scale)
    if train.head == "etf":
        return EtfHead(dim, classes, train.logit_scale, train.vertices)
    raise InputError(f"train.head must be cosine or etf; got '{train.head}'.")


__all__ = [
    "Backbone",
    "CosineHead",
    "EtfHead",
    "ResNet",
    "ResNet12",
    "ViT",
    "build_backbone",
    "build_head",
    "check_block",
]

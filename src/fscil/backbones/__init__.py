"""Networks that turn images into features."""

from __future__ import annotations

from collections.abc import Callable

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.cosine import CosineHead
from fscil.backbones.resnet12 import ResNet12
from fscil.backbones.vit import ViT
from fscil.config import BackboneConfig
from fscil.errors import InputError, nearest

KINDS: dict[str, Callable[[BackboneConfig], Backbone]] = {"vit": ViT, "resnet12": ResNet12}


def build_backbone(config: BackboneConfig) -> Backbone:
    if config.kind not in KINDS:
        raise InputError(f"There is no backbone.kind '{config.kind}'; {nearest(config.kind, KINDS)}")
    return KINDS[config.kind](config)


__all__ = ["Backbone", "CosineHead", "ResNet12", "ViT", "build_backbone", "check_block"]

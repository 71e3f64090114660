"""Networks that turn images into features."""

from collections.abc import Callable

from fscil.backbones.base import Backbone, check_block
from fscil.backbones.heads import CosineHead, EtfHead, LinearHead, build_head
from fscil.backbones.joined import Joined
from fscil.backbones.resnet import ResNet, ResNet12, resnet18, resnet20
from fscil.backbones.vit import ViT
from fscil.core.config import BackboneConfig

KINDS: dict[str, Callable[[BackboneConfig], Backbone]] = {
    "vit": ViT,
    "resnet12": ResNet12,
    "resnet18": resnet18,
    "resnet20": resnet20,
    "timm": lambda config: _timm(config),
    "joined": lambda config: Joined(config, build_backbone),
}


def build_backbone(config: BackboneConfig) -> Backbone:
    backbone = KINDS[config.kind](config)
    backbone.test_zoom, backbone.test_mirror = config.test_zoom, config.test_mirror
    return backbone


def _timm(config: BackboneConfig) -> Backbone:
    from fscil.backbones.timm_network import timm_backbone  # takes longer to import than torch

    return timm_backbone(config)


def depth_of(config: BackboneConfig) -> int:
    """After how many blocks (stages of a timm network that is no transformer) a network would give features."""
    if config.name or config.kind == "timm":
        from fscil.backbones.named import depth_of as depth_by_name

        return depth_by_name(config)
    return config.depth if config.kind == "vit" else 0

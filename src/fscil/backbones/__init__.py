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
    "joined": lambda config: Joined(config, build_backbone),
}


def build_backbone(config: BackboneConfig) -> Backbone:
    backbone = KINDS[config.kind](config)
    backbone.test_zoom, backbone.test_mirror = config.test_zoom, config.test_mirror
    return backbone

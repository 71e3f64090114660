"""Networks that turn images into features."""

from fscil.backbones.cosine import CosineHead
from fscil.backbones.vit import ViT

__all__ = ["CosineHead", "ViT"]

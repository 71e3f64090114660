"""The cosine classifier of the paper (section 4.1): logits are scale * cos(feature, class weight)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CosineHead(nn.Module):
    def __init__(self, dim: int, classes: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim) * 0.02)
        self.classes, self.scale = classes, scale

    def forward(self, features: Tensor) -> Tensor:
        # Cosines of close classes differ in digits that half precision does not have.
        with torch.autocast(features.device.type, enabled=False):
            return self.scale * F.linear(F.normalize(features.float(), dim=-1), F.normalize(self.weight, dim=-1))

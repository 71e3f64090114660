"""Classifiers on top of a backbone: the cosine head, a linear one, and the fixed head of NC-FSCIL.

- cosine: logits are scale * cos(feature, class weight), as in the paper (section 4.1).
- linear: logits are the product of feature and class weight, lengths and all.
- etf: the class vectors are a simplex equiangular tight frame (NC-FSCIL, Yang et al., ICLR 2023). Before training
  starts, every pair of classes, those to come included, is as far apart as any other; the network learns to put
  features there. A small neck maps the backbone's features into the frame's space.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.core.config import TrainConfig

DIM = 512  # of the space the frame lives in


def build_head(train: TrainConfig, dim: int, classes: int) -> CosineHead | LinearHead | EtfHead:
    """The classifier that base training puts on features of width `dim`."""
    if train.head == "etf":
        return EtfHead(dim, classes, train.logit_scale, train.vertices)
    if train.head == "linear":
        return LinearHead(dim, classes, bias=False)
    return CosineHead(dim, classes, train.logit_scale)


class CosineHead(nn.Module):
    def __init__(self, dim: int, classes: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim) * 0.02)
        self.classes, self.scale = classes, scale

    def forward(self, features: Tensor) -> Tensor:
        # Cosines of close classes differ in digits that half precision does not have.
        with torch.autocast(features.device.type, enabled=False):
            return self.scale * F.linear(F.normalize(features.float(), dim=-1), F.normalize(self.weight, dim=-1))


class LinearHead(nn.Linear):
    """One row per class in the space of the features, as a cosine head has them."""


def simplex_frame(vertices: int, dim: int, generator: torch.Generator) -> Tensor:
    """(vertices, dim) unit vectors; the product of any two is -1 / (vertices - 1)."""
    if vertices > dim:
        raise ValueError(f"{vertices} equiangular vectors do not fit into {dim} dimensions.")
    # float64: in float32 the angles would be off by more than the noise of training
    basis, _ = torch.linalg.qr(torch.rand(dim, vertices, dtype=torch.float64, generator=generator))
    centred = torch.eye(vertices, dtype=torch.float64) - 1 / vertices
    return (math.sqrt(vertices / (vertices - 1)) * basis @ centred).T.float()


class Neck(nn.Module):
    """Three linear maps with LayerNorm and LeakyReLU between them, plus a linear shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        hidden = 2 * inputs
        layers: list[nn.Module] = []
        for width in (inputs, hidden):
            layers += [nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.LeakyReLU(0.1)]
        self.deep = nn.Sequential(*layers, nn.Linear(hidden, outputs, bias=False))
        self.shortcut = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.deep(x) + self.shortcut(x)


class EtfHead(nn.Module):
    """Logits of the first `classes` vertices; the others are kept for classes to come. The frame is never trained."""

    weight: Tensor

    def __init__(self, dim: int, classes: int, scale: float, vertices: int = 0) -> None:
        super().__init__()
        self.classes, self.scale = classes, scale
        self.neck = Neck(dim, DIM)
        seed = int(torch.randint(2**31, ()))  # follows the training's seed
        frame = simplex_frame(max(vertices, classes), DIM, torch.Generator().manual_seed(seed))
        self.register_buffer("weight", frame)

    def forward(self, features: Tensor) -> Tensor:
        unit = F.normalize(self.neck(features).float(), dim=-1)
        with torch.autocast(unit.device.type, enabled=False):
            return self.scale * F.linear(unit, self.weight[: self.classes])

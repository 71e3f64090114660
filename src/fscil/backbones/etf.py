"""The fixed classifier of NC-FSCIL (Yang et al., ICLR 2023): the class vectors are a simplex equiangular tight frame.

Every pair of classes, those to come included, is as far apart as any other before training starts; the network learns
to put features there. A small neck maps the backbone's features into the frame's space.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DIM = 512  # of the space the frame lives in


def simplex_frame(vertices: int, dim: int, generator: torch.Generator) -> Tensor:
    """(vertices, dim) unit vectors; the product of any two is -1 / (vertices - 1)."""
    if vertices > dim:
        raise ValueError(f"{vertices} equiangular vectors do not fit into {dim} dimensions.")
    # float64: in float32 the angles would be off by more than training could tell apart from noise
    basis, _ = torch.linalg.qr(torch.rand(dim, vertices, dtype=torch.float64, generator=generator))
    centred = torch.eye(vertices, dtype=torch.float64) - 1 / vertices
    return (math.sqrt(vertices / (vertices - 1)) * basis @ centred).T.float()


class Neck(nn.Module):
    """Three linear maps with LayerNorm and LeakyReLU between, beside a linear shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        hidden = 2 * inputs
        self.deep = nn.Sequential(
            nn.Linear(inputs, hidden),
            nn.LayerNorm(hidden),
            nn.LeakyReLU(0.1),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.LeakyReLU(0.1),
            nn.Linear(hidden, outputs, bias=False),
        )
        self.shortcut = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.deep(x) + self.shortcut(x)


class EtfHead(nn.Module):
    """Logits of the first `classes` vertices; the others wait for classes to come. The frame is never trained."""

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

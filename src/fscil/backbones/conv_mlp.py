"""The MLP of a transformer block with a depthwise 3x3 convolution over the grid of tokens.

PVT v2 (arXiv 2106.13797) and DHVT (arXiv 2210.05958) put one between the two linear maps: every block then sees
neighbours as neighbours, which a ViT trained on few images does not learn by itself.
"""

import math

import torch
from torch import Tensor, nn


class ConvMlp(nn.Module):
    """In place of `PlainMlp`. A class token in front of the grid passes by the convolution."""

    def __init__(self, in_features: int, hidden_features: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(in_features, hidden_features)
        self.depthwise = nn.Conv2d(hidden_features, hidden_features, 3, padding=1, groups=hidden_features)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden_features, in_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self._mix(self.fc1(x))))

    def _mix(self, x: Tensor) -> Tensor:
        side = math.isqrt(x.shape[1])
        extra = x.shape[1] - side * side  # 65 tokens: a class token and 8 x 8 patches
        grid = x[:, extra:].unflatten(1, (side, side)).permute(0, 3, 1, 2)  # channels last in memory: nothing is copied
        mixed = (grid + self.depthwise(grid)).permute(0, 2, 3, 1).flatten(1, 2)
        return torch.cat([x[:, :extra], mixed], 1) if extra else mixed

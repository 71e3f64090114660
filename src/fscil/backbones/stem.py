"""Convolutional stems in place of the patch embedding: overlapping convolutions down to the same grid of tokens.

A plain ViT has to learn locality from data; with few images or few epochs a stem supplies it.

- conv: 3x3 convolutions of stride 2 (Xiao et al., Early Convolutions Help Transformers See Better, arXiv 2106.14881).
- residual: the same with a residual block at every resolution before the last, as hybrids such as CoAtNet
  (arXiv 2106.04803) have it: the fine detail of small images is read before it is folded into tokens.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class Stem(nn.Module):
    """In place of `PatchEmbedding`, whose arguments it takes and whose attributes it offers."""

    def __init__(self, img_size: int, patch_size: int, in_chans: int, embed_dim: int) -> None:
        super().__init__()
        halvings = patch_size.bit_length() - 1
        if 2**halvings != patch_size or halvings < 1:
            raise ValueError("A convolutional stem needs a patch size of 2, 4, 8 or 16.")
        self.layers = self._layers(in_chans, embed_dim, halvings)
        self.img_size, self.num_patches = (img_size, img_size), (img_size // patch_size) ** 2

    def _layers(self, in_chans: int, embed_dim: int, halvings: int) -> nn.Sequential:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(2).transpose(1, 2)


class ConvStem(Stem):
    def _layers(self, in_chans: int, embed_dim: int, halvings: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        channels = in_chans
        for left in range(halvings - 1, -1, -1):
            wider = embed_dim // 2**left
            # One group: the norm sees each image alone, so results do not depend on the batch or on DDP.
            halving = nn.Conv2d(channels, wider, 3, stride=2, padding=1, bias=False)
            layers += [halving, nn.GroupNorm(1, wider), nn.GELU()]
            channels = wider
        return nn.Sequential(*layers, nn.Conv2d(channels, embed_dim, 1))


class ResidualStem(Stem):
    def _layers(self, in_chans: int, embed_dim: int, halvings: int) -> nn.Sequential:
        width = embed_dim // 2**halvings
        layers: list[nn.Module] = [nn.Conv2d(in_chans, width, 3, padding=1, bias=False)]
        for _ in range(halvings):
            layers += [ResidualBlock(width), nn.BatchNorm2d(width), nn.GELU()]
            layers += [nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False)]
            width *= 2
        return nn.Sequential(*layers, nn.BatchNorm2d(width))


class ResidualBlock(nn.Module):
    """Norm, GELU, convolution, twice, around an identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            y = convolution(F.gelu(norm(y)))
        return x + y

"""A convolutional stem in place of the patch embedding (Xiao et al., Early Convolutions Help Transformers See
Better, arXiv 2106.14881): overlapping 3x3 convolutions of stride 2 down to the same grid of tokens.

A plain ViT has to learn locality from data; with few images or few epochs the stem supplies it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class ConvStem(nn.Module):
    """Takes the arguments and offers the attributes of timm's `PatchEmbed`."""

    def __init__(self, img_size: int, patch_size: int, in_chans: int, embed_dim: int, **_: Any) -> None:
        super().__init__()
        halvings = patch_size.bit_length() - 1
        if 2**halvings != patch_size or halvings < 1:
            raise ValueError("A convolutional stem needs a patch size of 2, 4, 8 or 16.")
        layers: list[nn.Module] = []
        channels = in_chans
        for left in range(halvings - 1, -1, -1):
            wider = embed_dim // 2**left
            # One group: the norm sees each image alone, so results do not depend on the batch or on DDP.
            layers += [
                nn.Conv2d(channels, wider, 3, stride=2, padding=1, bias=False),
                nn.GroupNorm(1, wider),
                nn.GELU(),
            ]
            channels = wider
        self.layers = nn.Sequential(*layers, nn.Conv2d(channels, embed_dim, 1))
        side = img_size // patch_size
        self.img_size, self.patch_size, self.grid_size = (img_size, img_size), (patch_size, patch_size), (side, side)
        self.num_patches = side * side

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).flatten(2).transpose(1, 2)

    def feat_ratio(self, as_scalar: bool = True) -> Any:
        return max(self.patch_size) if as_scalar else self.patch_size

    def dynamic_feat_size(self, img_size: tuple[int, int]) -> tuple[int, int]:
        return img_size[0] // self.patch_size[0], img_size[1] // self.patch_size[1]

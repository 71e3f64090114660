"""A vision transformer of any size: the arithmetic, the first weights and the names of weights are those of timm's.

timm has this network and a thousand others, and importing it takes longer than importing torch. Networks that timm is
asked for by name are built by timm (`backbones/vit.py`); the small ones of the recipes are built here.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_FIRST_DEVIATION = 0.02  # of linear maps and of the places' embedding
_FARTHEST = 2.0  # which no number of that deviation reaches, short of the infinite
_FIRST_TOKEN = 1e-6
_EPSILON = 1e-6  # of the norms


class PatchEmbedding(nn.Module):
    """One linear map per patch."""

    def __init__(self, img_size: int, patch_size: int, in_chans: int, embed_dim: int) -> None:
        super().__init__()
        side = img_size // patch_size
        self.img_size, self.num_patches = (img_size, img_size), side * side
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, stride=patch_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)


class PlainMlp(nn.Module):
    def __init__(self, in_features: int, hidden_features: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(in_features, hidden_features)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden_features, in_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class SelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        count, tokens, dim = x.shape
        parts = self.qkv(x).reshape(count, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).reshape(count, tokens, dim))


class DropPath(nn.Module):
    """In training, a branch is left out for some images, and counts for more in the others."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if self.rate == 0 or not self.training:
            return x
        kept = x.new_empty(x.shape[0], *[1] * (x.ndim - 1)).bernoulli_(1 - self.rate)
        return x * kept.div_(1 - self.rate)


class TransformerBlock(nn.Module):
    """Attention and MLP, each behind a norm and beside an identity."""

    def __init__(self, dim: int, heads: int, mlp: Any, hidden: int, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, _EPSILON)
        self.attn = SelfAttention(dim, heads)
        self.drop_path1 = DropPath(drop_path)
        self.norm2 = nn.LayerNorm(dim, _EPSILON)
        self.mlp = mlp(dim, hidden)
        self.drop_path2 = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path1(self.attn(self.norm1(x)))
        return x + self.drop_path2(self.mlp(self.norm2(x)))


class Transformer(nn.Module):
    """Offers of timm's `VisionTransformer` what `ViT` uses."""

    def __init__(
        self,
        stem: Any,  # PatchEmbedding, or a class that takes the same arguments
        mlp: Any,  # PlainMlp, or likewise
        *,
        image_size: int,
        patch_size: int,
        dim: int,
        depth: int,
        heads: int,
        mlp_ratio: float,
        drop_path: float,
        class_token: bool,
    ) -> None:
        super().__init__()
        self.embed_dim = dim
        self.num_prefix_tokens = int(class_token)
        self.patch_embed = stem(img_size=image_size, patch_size=patch_size, in_chans=3, embed_dim=dim)
        self.cls_token = nn.Parameter(torch.empty(1, 1, dim)) if class_token else None
        self.pos_embed = nn.Parameter(torch.empty(1, self.patch_embed.num_patches + self.num_prefix_tokens, dim))
        rates = torch.linspace(0, drop_path, depth, device="cpu").tolist()
        hidden = int(dim * mlp_ratio)
        self.blocks = nn.Sequential(*(TransformerBlock(dim, heads, mlp, hidden, rate) for rate in rates))
        self.norm = nn.LayerNorm(dim, _EPSILON)
        self._start()

    def _start(self) -> None:
        """First weights; convolutions keep those that torch gave them."""
        _draw(self.pos_embed)
        if self.cls_token is not None:
            nn.init.normal_(self.cls_token, std=_FIRST_TOKEN)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                _draw(module.weight)
                nn.init.zeros_(module.bias)

    def embed(self, images: Tensor) -> Tensor:
        """Tokens (n, tokens, dim) with their places.

        In the type that the stem gives them, under autocast in half precision: adding the float32 embedding of the
        places would make the whole residual stream float32, twice the memory traffic.
        """
        x = self.patch_embed(images)
        tokens = x if self.cls_token is None else torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        return (tokens + self.pos_embed).to(x.dtype)

    def pool(self, tokens: Tensor) -> Tensor:
        return tokens.mean(1) if self.cls_token is None else tokens[:, 0]


@torch.no_grad()
def _draw(weights: Tensor) -> None:
    """Normal numbers by the inverse of their distribution, as timm draws them; those of torch.nn.init differ."""
    weights.uniform_(-1, 1).erfinv_().mul_(_FIRST_DEVIATION * math.sqrt(2)).clamp_(-_FARTHEST, _FARTHEST)

"""CEC's and LIMIT's layer with its tokens written out, one query at a time: what the fast form must come to."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.objectives.prototype_attention import PrototypeAttention


def written_out(made: PrototypeAttention, prototypes: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines (n, C) and adapted queries (n, d)."""
    cosines, adapted = [], []
    for query in queries:
        tokens = torch.cat([prototypes, query[None]])
        asks, offers, gives = tokens @ made.query, tokens @ made.key, tokens @ made.value
        attended = F.scaled_dot_product_attention(asks[None], offers[None], gives[None])[0]
        tokens = tokens + attended @ made.output + made.bias
        tokens = F.layer_norm(tokens, tokens.shape[-1:], made.norm.weight, made.norm.bias, 1e-5)
        cosines.append(F.cosine_similarity(tokens[-1:], tokens[:-1], dim=-1))
        adapted.append(tokens[-1])
    return torch.stack(cosines), torch.stack(adapted)

"""Attention over prototypes: CEC's graph layer and LIMIT's calibration, which are one and the same module.

For every query q on its own, the tokens are T = [p_1; ...; p_C; q] and the layer gives

    T' = LayerNorm(T + W_o softmax(T W_q (T W_k)^T / sqrt(d)) T W_v + b_o),     score_c = cos(q', p'_c).

Written out, that is C + 1 tokens for each of n queries. But prototypes see the same prototypes whatever the query is,
and a softmax that gets one more entry is a weighted mean of what it was and of that entry. So

    p'_c = LayerNorm(p_c + (1 - a) u_c + a w + b_o),     a = sigmoid(p_c W_q (q W_k)^T / sqrt(d) - s_c),

with u_c what p_c gets from the prototypes alone, s_c the logsumexp of its scores there, and w = q W_v W_o. Mean,
variance and products of these vectors are sums of products of u, w and p: matrix products of size n x C, and no tensor
of size n x C x d. Same numbers, a fraction of the time.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from fscil.objectives.base import restored


class PrototypeTable(NamedTuple):
    """What prototypes (..., C, d) are to each other, whoever asks: worked out once for all queries and passes."""

    asks: Tensor  # p W_q / sqrt(d)
    offers: Tensor  # p W_k
    gives: Tensor  # p W_v
    reach: Tensor  # s above, (..., C)
    gets: Tensor  # u above, without its mean
    start: Tensor  # p + u + b_o, without its mean


class PrototypeAttention(nn.Module):
    """One head of self-attention with residual and LayerNorm over the prototypes and one query at a time."""

    def __init__(self, dim: int, generator: torch.Generator | None = None, zero_start: bool = False) -> None:
        """Starts as the released module does; with `zero_start` it adds nothing at first."""
        super().__init__()

        def matrix() -> nn.Parameter:
            return nn.Parameter(torch.randn(dim, dim, generator=generator) / math.sqrt(dim))

        self.query, self.key, self.value, self.output = matrix(), matrix(), matrix(), matrix()
        self.bias = nn.Parameter((2 * torch.rand(dim, generator=generator) - 1) / math.sqrt(dim))
        self.norm = nn.LayerNorm(dim)
        if zero_start:
            nn.init.zeros_(self.output)
            nn.init.zeros_(self.bias)

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        return restored(lambda: cls(len(state["bias"])), state)

    def table(self, prototypes: Tensor) -> PrototypeTable:
        p = prototypes
        asks, offers, gives = p @ self.query / math.sqrt(p.shape[-1]), p @ self.key, p @ self.value
        among = asks @ offers.mT  # (..., C, C)
        gets = among.softmax(-1) @ gives @ self.output
        return PrototypeTable(asks, offers, gives, among.logsumexp(-1), _centred(gets), _centred(p + gets + self.bias))

    def forward(self, table: PrototypeTable, queries: Tensor, unit_query: bool = True) -> tuple[Tensor, Tensor]:
        """Scores (..., n, C) and adapted queries (..., n, d), of a table and queries (..., n, d).

        Scores are cosines, or with `unit_query` off the products of adapted queries and unit adapted prototypes.
        """
        x, root = queries, math.sqrt(queries.shape[-1])
        asks, offers, gives = x @ self.query / root, x @ self.key, x @ self.value
        share = torch.sigmoid(offers @ table.asks.mT - table.reach[..., None, :])  # (n, C): a above
        weights = torch.cat([asks @ table.offers.mT, (asks * offers).sum(-1, keepdim=True)], -1).softmax(-1)
        gets = weights[..., :-1] @ table.gives + weights[..., -1:] * gives
        adapted = self.norm(x + gets @ self.output + self.bias)
        # p' before its norm is start + share * (given - gets); all without their means, as LayerNorm takes them.
        start, gets, given = table.start, table.gets, _centred(gives @ self.output)
        scale, shift = self.norm.weight, self.norm.bias
        plain = _square(start, gets, given, share, torch.ones_like(scale))
        # A sum of squares, but put together from parts that may round below zero.
        inverse = (plain.clamp(min=0) / x.shape[-1] + self.norm.eps).rsqrt()

        def product(with_x: Tensor) -> Tensor:
            """Products (n, C) of one vector per query with the centred p'."""
            own = (with_x * given).sum(-1, keepdim=True)
            return with_x @ start.mT + share * (own - with_x @ gets.mT)

        dots = inverse * product(adapted * scale) + adapted @ shift[:, None]
        sizes = (
            inverse.square() * _square(start, gets, given, share, scale.square())
            + 2 * inverse * product((scale * shift).expand_as(x))
            + shift.square().sum()
        )
        scores = dots * sizes.clamp(min=1e-12).rsqrt()
        return (scores / adapted.norm(dim=-1, keepdim=True).clamp(min=1e-6) if unit_query else scores), adapted

    @torch.no_grad()
    def scores(self, prototypes: Tensor, queries: Tensor, unit_query: bool = True, chunk: int = 4096) -> Tensor:
        """Scores without gradients, in pieces that fit into memory."""
        table = self.table(prototypes)
        return torch.cat([self(table, part, unit_query)[0] for part in queries.split(chunk)])


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _square(start: Tensor, gets: Tensor, given: Tensor, share: Tensor, weight: Tensor) -> Tensor:
    """(n, C): sum over features of weight * (start + share * (given - gets))^2."""

    def inner(a: Tensor, b: Tensor) -> Tensor:
        return (weight * a * b).sum(-1)

    given_start, given_gets = (given * weight) @ start.mT, (given * weight) @ gets.mT
    cross = given_start - inner(start, gets)[..., None, :]
    spread = inner(given, given)[..., :, None] - 2 * given_gets + inner(gets, gets)[..., None, :]
    return inner(start, start)[..., None, :] + share * (2 * cross + share * spread)

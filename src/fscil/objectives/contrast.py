"""Supervised contrast against a queue of past keys (SAVC's, after MoCo): same label attracts, all others repel."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_GONE = -1e9  # a logit that counts for nothing; infinity would have no gradient where a query has no negatives


class LabelledQueue(nn.Module):
    """The last `size` unit keys and their labels, oldest overwritten first. A place not used yet has the label -1."""

    keys: Tensor
    labels: Tensor
    place: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("keys", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("labels", torch.full((size,), -1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, keys: Tensor, labels: Tensor) -> None:
        keys, labels = keys[-self.size :], labels[-self.size :]  # more than fit: the newest stay
        index = (self.place + torch.arange(len(keys), device=keys.device)) % self.size
        self.keys.index_copy_(0, index, keys.to(self.keys.dtype))
        self.labels.index_copy_(0, index, labels)
        self.place.copy_((self.place + len(keys)) % self.size)


def contrast(
    queries: Tensor, own: Tensor, labels: Tensor, keys: Tensor, key_labels: Tensor, temperature: float
) -> Tensor:
    """Loss (n,) of unit queries (n, p): mean over positives p of log(1 + exp(-s_p) * sum over negatives of exp(s)).

    Positives are a query's own key (n, p) and the keys of its label, negatives the rest; s is cosine / temperature.
    """
    to_own = (queries * own).sum(-1, keepdim=True) / temperature
    to_keys = queries @ keys.T / temperature
    same = labels[:, None] == key_labels[None]
    rivals = to_keys.masked_fill(same, _GONE).logsumexp(1, keepdim=True)
    losses = F.softplus(rivals - to_keys) * same
    return (F.softplus(rivals - to_own)[:, 0] + losses.sum(1)) / (1 + same.sum(1))

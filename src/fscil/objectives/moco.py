"""What SAVC takes from MoCo (He et al., CVPR 2020): a contrast against a queue of past keys, and what makes the keys.

In the contrast the same label attracts and all others repel. The keys come from a copy of the network that follows it
slowly.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

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


class MomentumCopy(nn.Module):
    """Tensors of the copy alone; its structure is borrowed from the network whenever it runs.

    The copy is what the network was at `begin`; every call of `follow` moves its parameters by 1 - momentum of the way.
    No gradient reaches them. BatchNorm's running statistics are the copy's own: it runs in training mode, which does
    not read them.
    """

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            return functional_call(network, self._tensors(), (x,))

    def begin(self, network: nn.Module) -> None:
        """To be called from `Objective.start`."""
        for name, value in network.state_dict().items():
            self.register_buffer(name.replace(".", "/"), value.clone())  # the name of a buffer has no dots

    @torch.no_grad()
    def follow(self, network: nn.Module) -> None:
        """To be called from `Objective.after_step`: one fused update on the device, which a recorded step repeats."""
        own, values = self._tensors(), dict(network.named_parameters())
        torch._foreach_lerp_([own[name] for name in values], list(values.values()), 1 - self.momentum)

    def _tensors(self) -> dict[str, Tensor]:
        return {name.replace("/", "."): value for name, value in self._buffers.items() if value is not None}

"""Neural gas: nodes that spread over features as these lie, and edges between nodes that are nearest to one feature.

Martinetz and Schulten, A 'Neural-Gas' Network Learns Topologies, ICANN 1991, as TOPIC describes it.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from fscil.methods.base import means_by_label

APART = -1  # age of an edge that is not there


class NeuralGas:
    """`nodes` (k, d), and `ages` (k, k) of edges: symmetric, APART where there is none."""

    def __init__(self, nodes: Tensor, lifetime: int, ages: Tensor | None = None) -> None:
        self.nodes, self.lifetime = nodes, lifetime
        self.ages = torch.full((len(nodes), len(nodes)), APART, device=nodes.device) if ages is None else ages

    def fit(self, features: Iterable[Tensor], rate: float, reach: float) -> None:
        """Every node moves towards every feature, the i-th nearest (from 1) by `rate` times exp(-i / reach)."""
        pull = rate * torch.exp(-torch.arange(1, len(self.nodes) + 1, device=self.nodes.device) / reach)
        for feature in features:
            order = (self.nodes - feature).square().sum(1).argsort()
            self._connect(*order[:2].tolist())
            self.nodes[order] += pull[:, None] * (feature - self.nodes[order])

    def connect(self, features: Tensor) -> None:
        """Edges as the features ask for them; the nodes stay."""
        for feature in features:
            order = (self.nodes - feature).square().sum(1).argsort()
            self._connect(*order[:2].tolist())

    def grown(self, nodes: Tensor) -> "NeuralGas":
        """With these nodes behind its own, which no edge leads to yet."""
        whole = NeuralGas(torch.cat([self.nodes, nodes]), self.lifetime)
        whole.ages[: len(self.ages), : len(self.ages)] = self.ages
        return whole

    def edges(self) -> Tensor:
        """(edges, 2), the smaller number first."""
        return torch.nonzero((self.ages != APART).triu(1))

    def winners(self, features: Tensor) -> Tensor:
        """(n,): the nearest node of each."""
        return torch.cdist(features, self.nodes, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)

    def _connect(self, first: int, second: int | None = None) -> None:
        """A new edge between the two nearest; all others of the nearest grow older, and go when they are too old."""
        if second is None:
            return
        around = self.ages[first]
        aged = torch.where(around != APART, around + 1, around)
        aged[second] = 0
        aged = torch.where(aged > self.lifetime, APART, aged)
        self.ages[first] = aged
        self.ages[:, first] = aged


class Anchors:
    """What nodes stand for: of those that are nearest to some feature, the class, an image and the spread.

    A node's class is that of most features that it is nearest to. `rows` are the features of that class nearest to it.
    """

    def __init__(self, gas: NeuralGas, features: Tensor, labels: Tensor) -> None:
        winners = gas.winners(features)
        self.nodes = winners.unique()
        found, spreads, rows = [], [], []
        for node in self.nodes.tolist():
            of_node = torch.nonzero(winners == node).flatten()
            label = int(labels[of_node].bincount().argmax())
            members = of_node[labels[of_node] == label]
            found.append(label)
            spreads.append(features[members].var(0, correction=0))
            rows.append(members[(features[members] - gas.nodes[node]).square().sum(1).argmin()])
        self.labels = torch.tensor(found, device=labels.device)
        self.variances, self.rows = torch.stack(spreads), torch.stack(rows)


def start_nodes(features: Tensor, labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Features drawn at random, each moved a little towards the mean of its class, so that no node is an image."""
    drawn = torch.randperm(len(features), generator=generator)[:count].to(features.device)
    means = means_by_label(features, labels, int(labels.max()) + 1)
    return 0.9 * features[drawn] + 0.1 * means[labels[drawn]]

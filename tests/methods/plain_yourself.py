"""YourSelf once more, as slowly as it can be written: a network per branch, losses by loops, SGD by hand, in float64.

Written from the paper's formulas and the released settings; it shares no code with the package. Gradients are those of
autograd, class statistics numpy's. What is random (batches, first weights) is given, so that two trainings compare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]  # features (1 + layers, n, d), final first; labels


class PlainYourSelf:
    """`weights` are those of the FR modules at the start, by the names they are stored under."""

    def __init__(self, weights: Mapping[str, Tensor], branches: int, options: Mapping[str, Any]) -> None:
        self.weights = {name: value.detach().double().requires_grad_() for name, value in weights.items()}
        self.branches, self.options = branches, options

    def train(self, batches: Sequence[Batch], prototypes: Sequence[Tensor], novel_from: int | None) -> None:
        """One session: its own momentum, a tenth of the rate from 60, 70, 80 and 90 % of the steps on."""
        steps, options = len(batches), self.options
        momentum = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        for step, (stacked, labels) in enumerate(batches):
            rate = options["lr"]
            for percent in (60, 70, 80, 90):
                if step >= round(steps * percent / 100):
                    rate /= 10
            loss = self.loss(stacked.double(), labels.tolist(), prototypes, novel_from)
            gradients = torch.autograd.grad(loss, list(self.weights.values()))
            for (name, weight), gradient in zip(self.weights.items(), gradients, strict=True):
                if step == 0 and options["first_step"] == "released":
                    momentum[name] = gradient
                else:
                    momentum[name] = options["momentum"] * momentum[name] + (1 - options["dampening"]) * gradient
                self.weights[name] = (weight - rate * momentum[name]).detach().requires_grad_()

    def loss(self, x: Tensor, labels: list[int], prototypes: Sequence[Tensor], novel_from: int | None) -> Tensor:
        options, n = self.options, len(labels)
        total = torch.zeros((), dtype=torch.float64)
        for branch in range(self.branches):
            ours, layer = self.rectify(branch, x[0], x[1 + branch]), x[1 + branch]
            compared = prototypes[1 + branch if options["own_relations"] else 0]
            novel, everything, novel_count = total * 0, total * 0, 0
            for i, label in enumerate(labels):
                total = total + options["weight_cos"] * (1 - cosine(ours[i], x[0, i])) / n
                p = probabilities(layer[i], compared, options["scale"])
                q = probabilities(ours[i], prototypes[0], options["scale"])
                if options["reverse_relations"]:
                    p, q = q, p
                total = total + options["weight_cr"] * (p * (p.log() - q.log())).sum() / n
                likely = probabilities(ours[i], prototypes[0], options["scale"])[label].log()
                everything = everything - likely
                if novel_from is not None and label >= novel_from:
                    novel, novel_count = novel - likely, novel_count + 1
            total = total + options["weight_all"] * everything / n
            total = total + options["weight_novel"] * novel / max(1, novel_count)
            total = total + self.pairs(ours, layer, labels)
        return total

    def pairs(self, ours: Tensor, layer: Tensor, labels: list[int]) -> Tensor:
        sums, counts = {True: ours.sum() * 0, False: ours.sum() * 0}, {True: 0, False: 0}
        for i, first in enumerate(labels):
            for j, second in enumerate(labels[:i]):
                counts[first == second] += 1
                if torch.equal(layer[i], layer[j]) and torch.equal(ours[i], ours[j]):
                    continue  # one sample drawn twice: the distance is 0 in both
                gap = ((ours[i] - ours[j]).norm() - (layer[i] - layer[j]).norm()).abs()
                sums[first == second] = sums[first == second] + (gap**2 / 2 if gap < 1 else gap - 0.5)
        intra, inter = self.options["weight_intra"], self.options["weight_inter"]
        return intra * sums[True] / max(1, counts[True]) + inter * sums[False] / max(1, counts[False])

    def rectify(self, branch: int, final: Tensor, layer: Tensor) -> Tensor:
        both = [self._mlp("read", branch, final), self._mlp("read", self.branches + branch, layer)]
        mixed = self._mlp("mix", branch, torch.cat(both, dim=1))
        return mixed + final if self.options["residual"] else mixed

    def scores(self, x: Tensor, prototypes: Tensor) -> Tensor:
        """Mean over branches of softmax: (n, classes)."""
        x, rows = x.double(), []
        for i in range(x.shape[1]):
            branches = [self.rectify(b, x[0, i : i + 1], x[1 + b, i : i + 1])[0] for b in range(self.branches)]
            rows.append(sum(probabilities(ours, prototypes, self.options["scale"]) for ours in branches))
        return torch.stack(rows).detach() / self.branches

    def _mlp(self, part: str, index: int, x: Tensor) -> Tensor:
        def of(name: str) -> Tensor:
            return self.weights[f"{part}.{name}"][index]

        hidden = x @ of("first.weight") + of("first.bias")
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
        hidden = hidden - hidden.mean(1, keepdim=True)
        hidden = hidden / (hidden.pow(2).mean(1, keepdim=True) + 1e-5).sqrt()
        hidden = hidden * of("norm_weight") + of("norm_bias")
        return hidden @ of("last.weight") + of("last.bias")


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Of a to b, or to every row of b."""
    return (b @ a) / (a.norm() * b.norm(dim=-1))


def probabilities(x: Tensor, prototypes: Tensor, scale: float) -> Tensor:
    e = (scale * cosine(x, prototypes)).exp()
    return e / e.sum()


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def direction_means(x: np.ndarray, labels: np.ndarray, classes: Sequence[int]) -> np.ndarray:
    """Of one layer: the direction of the mean of each class's directions."""
    return np.stack([unit(unit(x[labels == c]).mean(0)) for c in classes])


class PlainGaussians:
    """Mean and covariance of every class in one layer, a new class's covariance from the base classes nearest to it."""

    def __init__(self, x: np.ndarray, labels: np.ndarray, jitter: float, top_k: int) -> None:
        self.base = [x[labels == c].mean(0) for c in range(labels.max() + 1)]
        self.spread = [np.cov(x[labels == c].T) for c in range(labels.max() + 1)]
        self.jitter, self.top_k, self.means, self.covariances = jitter, top_k, list(self.base), list(self.spread)

    def add(self, x: np.ndarray, labels: np.ndarray, classes: Sequence[int]) -> None:
        for c in classes:
            mean = x[labels == c].mean(0)
            likeness = [float(unit(mean) @ unit(base)) for base in self.base]
            nearest = sorted(range(len(self.base)), key=lambda b: -likeness[b])[: self.top_k]
            self.means.append(mean)
            self.covariances.append(sum(self.spread[b] for b in nearest) / len(nearest))

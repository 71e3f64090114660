"""The contrast against plain loops, and the queue against a list."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from fscil.objectives.moco import LabelledQueue, contrast


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64), dim=-1)


def test_against_loops() -> None:
    queries, own, keys = unit(3, 4), unit(3, 4, seed=1), unit(6, 4, seed=2)
    labels, key_labels = torch.tensor([0, 1, 5]), torch.tensor([0, 1, 0, -1, 2, 1])
    losses = contrast(queries, own, labels, keys, key_labels, 0.5)
    for i in range(3):
        s = [float(queries[i] @ key) / 0.5 for key in keys]
        rivals = sum(math.exp(v) for v, label in zip(s, key_labels, strict=True) if label != labels[i])
        positives = [float(queries[i] @ own[i]) / 0.5]
        positives += [v for v, label in zip(s, key_labels, strict=True) if label == labels[i]]
        expected = sum(math.log(1 + math.exp(-p) * rivals) for p in positives) / len(positives)
        assert float(losses[i]) == pytest.approx(expected)


def test_without_positives_in_the_queue_it_is_softmax_cross_entropy() -> None:
    queries, own, keys = unit(5, 16), unit(5, 16, seed=1), unit(8192, 16, seed=2)
    losses = contrast(queries, own, torch.zeros(5, dtype=torch.long), keys, torch.full((8192,), -1), 0.07)
    logits = torch.cat([(queries * own).sum(1, keepdim=True), queries @ keys.T], 1) / 0.07
    assert torch.allclose(losses, F.cross_entropy(logits, torch.zeros(5, dtype=torch.long), reduction="none"))


def test_without_negatives_there_is_nothing_to_learn() -> None:
    queries = unit(2, 4).requires_grad_()
    losses = contrast(
        queries, unit(2, 4, seed=1), torch.zeros(2).long(), unit(3, 4, seed=2), torch.zeros(3).long(), 0.1
    )
    losses.sum().backward()
    assert losses.tolist() == [0.0, 0.0]
    assert queries.grad is not None
    assert queries.grad.abs().max() == 0


def test_the_queue_wraps_and_labels_stay_with_their_keys() -> None:
    size, step = 8192, 96
    queue = LabelledQueue(size, 2)
    assert (queue.labels == -1).all()
    count = -(-size // step) + 1
    for number in range(count):
        numbers = torch.arange(number * step, (number + 1) * step)
        queue.enqueue(torch.stack([numbers.float(), -numbers.float()], 1), numbers)
    assert int(queue.place) == count * step % size
    assert torch.equal(queue.keys[:, 0], queue.labels.float())
    assert sorted(queue.labels.tolist()) == list(range(count * step - size, count * step))


def test_more_keys_than_places_leaves_the_newest() -> None:
    queue = LabelledQueue(4, 1)
    queue.enqueue(torch.arange(10.0)[:, None], torch.arange(10))
    assert sorted(queue.labels.tolist()) == [6, 7, 8, 9]

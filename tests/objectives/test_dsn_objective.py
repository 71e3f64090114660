"""DSN's base training by hand: cosines behind a layer; the network's own head learns beside it and shapes nothing."""

from __future__ import annotations

import pytest
import torch
from small_networks import CLASSES, batch, classifier, objective

from fscil.objectives.dsn import DSNObjective


def test_the_loss_by_hand() -> None:
    network, view, part = classifier(), batch(6), objective("dsn", nodes=5)
    assert isinstance(part, DSNObjective)
    loss, logits = part(network, [view], torch.zeros(()))
    assert part.first.weight.shape == (5, 16)
    wanted = []
    for place, label in enumerate(view.labels.tolist()):
        inner = part.first.weight @ network.backbone(view.images[place : place + 1])[0]
        found = torch.stack([16 * (inner / inner.norm()) @ (row / row.norm()) for row in part.classes.weight])
        assert torch.allclose(logits[place], found, atol=1e-4)
        wanted.append(-float(found.log_softmax(0)[label].detach()))
    assert len(logits[0]) == CLASSES
    assert float(loss.detach()) == pytest.approx(sum(wanted) / 6, abs=1e-4)


def test_the_head_learns_and_shapes_nothing() -> None:
    gradients = []
    for factor in (1.0, -3.0):
        network, part = classifier(), objective("dsn", nodes=5)
        with torch.no_grad():
            network.head.weight.mul_(factor)
        part(network, [batch(8)], torch.zeros(()))[0].backward()
        assert network.head.weight.grad is not None
        assert network.head.weight.grad.any()
        gradients.append([p.grad for p in [*network.backbone.parameters(), *part.parameters()] if p.grad is not None])
    assert all(torch.allclose(a, b) for a, b in zip(*gradients, strict=True))

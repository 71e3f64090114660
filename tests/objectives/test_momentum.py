"""The momentum copy against a plain loop."""

from __future__ import annotations

import copy

import torch
from torch import nn

from fscil.objectives.moco import MomentumCopy


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def test_it_follows_slowly() -> None:
    source, slow = network(), MomentumCopy(0.9)
    slow.begin(source)
    expected = [p.detach().clone() for p in source.parameters()]
    for _ in range(20):
        with torch.no_grad():
            for p in source.parameters():
                p.add_(torch.randn_like(p))
        slow.follow(source)
        expected = [0.9 * old + 0.1 * new for old, new in zip(expected, source.parameters(), strict=True)]
    twin = copy.deepcopy(source)
    for p, value in zip(twin.parameters(), expected, strict=True):
        p.data = value
    x = torch.randn(5, 3)
    assert torch.allclose(slow(source, x), twin(x), atol=1e-5)


def test_it_begins_as_the_network_was() -> None:
    source, slow, x = network(), MomentumCopy(0.9), torch.randn(5, 3)
    slow.begin(source)
    before = source(x)
    with torch.no_grad():
        source[0].weight.mul_(3)
    assert torch.allclose(slow(source, x), before)


def test_no_gradient_and_no_hand_on_the_network() -> None:
    source, slow, x = network(), MomentumCopy(0.9), torch.randn(5, 3)
    slow.begin(source)
    slow.follow(source)
    before = {name: value.clone() for name, value in source.state_dict().items()}
    assert not slow(source, x).requires_grad
    assert all(torch.equal(value, before[name]) for name, value in source.state_dict().items())  # running means too
    assert not list(slow.parameters())


def test_one_that_continues_has_the_state_of_the_one_before() -> None:
    source, slow, x = network(), MomentumCopy(0.5), torch.randn(5, 3)
    slow.begin(source)
    with torch.no_grad():
        source[0].weight.mul_(3)
    slow.follow(source)
    fresh = MomentumCopy(0.5)
    fresh.begin(source)
    assert not torch.equal(fresh(source, x), slow(source, x))
    fresh.load_state_dict(slow.state_dict())
    assert torch.equal(fresh(source, x), slow(source, x))

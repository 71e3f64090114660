"""MetaFSCIL's sessions: the steps of meta-training, on the network itself; gates and batch-norm stay."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, WAY, prepared, tiny_benchmark, tiny_network
from torch import Tensor

from fscil.backbones.modulated import Modulated, Modulation
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.data import Session
from fscil.data.session import PixelView
from fscil.methods import MetaFSCIL, make
from fscil.methods.networks import seen
from fscil.objectives.metafscil import Adaptation, adapted, weights_of
from fscil.training.checkpoint import Classifier

IMAGES = torch.from_numpy(tiny_benchmark()._dataset.test.images)


def modulation_of(network: Classifier) -> Modulation:
    torch.manual_seed(3)
    made = Modulation(network.backbone, rank=3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return made.requires_grad_(False)


def learning(until: int, network: Classifier | None = None, *, modulated: bool = True, **options: Any) -> MetaFSCIL:
    """As after base training with the objective metafscil, or with another one."""
    method = make("metafscil", options)
    assert isinstance(method, MetaFSCIL)
    method.start(seed=0, depth=DEPTH, device=CPU)
    sessions = prepared(method, tiny_benchmark())
    own = copy.deepcopy(network or tiny_network().classifier)
    state = {f"modulation.{name}": value for name, value in modulation_of(own).state_dict().items()}
    extras = {"rows": torch.zeros(BASE, 16), **state} if modulated else {}
    sessions[0] = dataclasses.replace(sessions[0], network=own, extras=extras)
    for session in sessions[: until + 1]:
        (method.fit_novel if session.index else method.fit_base)(session)
    return method


def convolutional() -> Classifier:
    torch.manual_seed(0)
    backbone = BackboneConfig(kind="resnet20", image_size=8)
    return Classifier(backbone, TrainConfig(), BASE).eval().requires_grad_(False)


def rows_in_loops(features: Tensor, session: Session) -> Tensor:
    unit = features / features.norm(dim=1, keepdim=True)
    means = torch.stack([unit[session.labels == c].mean(0) for c in session.classes])
    return means / means.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("modulated", [True, False])
def test_before_any_session_it_is_the_prototype_baseline_on_its_network(modulated: bool) -> None:
    method = learning(0, modulated=modulated)
    own = tiny_network().classifier
    whole = Modulated(own.backbone, modulation_of(own) if modulated else None)
    base = tiny_benchmark().session(0)
    assert base.images is not None
    with torch.no_grad():
        rows, found = rows_in_loops(whole(base.images), base), whole(IMAGES)
    wanted = 16 * found / found.norm(dim=1, keepdim=True) @ rows.T
    assert torch.allclose(method.scores(PixelView(IMAGES)), wanted, atol=1e-4)
    plain = found if not modulated else seen(own, IMAGES)
    assert modulated != torch.allclose(plain, found, atol=1e-3)


def test_a_session_is_what_meta_training_did() -> None:
    """By plain steps of the optimizer on a network that is there, gates taken from the side."""
    options = {"steps": 3, "lr": 0.02, "warmup_steps": 4, "warmup_lr": 0.05}
    method, after = learning(0, **options), learning(1, **options)
    session = prepared(method, tiny_benchmark())[1]
    assert session.images is not None
    whole = Modulated(copy.deepcopy(method.network_.backbone), modulation_of(method.network_))
    own = list(whole.main.requires_grad_().parameters())
    with torch.no_grad():
        found = whole(session.images)
    new = rows_in_loops(found, session).requires_grad_()
    warm = torch.optim.SGD([new], 0.05)
    unit = torch.nn.functional.normalize
    for _ in range(4):
        warm.zero_grad()
        torch.nn.functional.cross_entropy(16 * unit(found) @ unit(new).T, session.labels - BASE).backward()
        warm.step()
    rows = torch.cat([method.rows_, new.detach()]).requires_grad_()
    steps = torch.optim.SGD([*own, rows], 0.02)
    for _ in range(3):
        steps.zero_grad()
        logits = 16 * unit(whole(session.images)) @ unit(rows).T
        torch.nn.functional.cross_entropy(logits, session.labels).backward()
        steps.step()
    assert torch.allclose(after.rows_, rows.detach(), atol=1e-5)
    for got, wanted in zip(after.network_.backbone.parameters(), own, strict=True):
        assert torch.allclose(got, wanted, atol=1e-5)
    moved = [not torch.equal(a, b) for a, b in zip(own, method.network_.backbone.parameters(), strict=True)]
    assert all(moved)


def test_sessions_never_change_gates_nor_batch_norm() -> None:
    network = convolutional()
    before, state = copy.deepcopy(network.backbone.state_dict()), modulation_of(network).state_dict()
    method = learning(SESSIONS, network, lr=0.05)
    assert method.modulation_.keys() == state.keys()
    assert all(torch.equal(method.modulation_[name], value) for name, value in state.items())
    buffers = dict(method.network_.backbone.named_buffers())
    assert any("running_mean" in name for name in buffers)
    assert all(torch.equal(value, before[name]) for name, value in buffers.items())
    changed = [name for name, _ in method.network_.backbone.named_parameters()]
    after = method.network_.backbone.state_dict()
    assert not any(torch.equal(after[name], before[name]) for name in changed)
    assert len(method.rows_) == BASE + WAY * SESSIONS


def test_without_a_rate_the_network_stays_to_the_last_bit() -> None:
    method = learning(SESSIONS, lr=0.0, warmup_steps=0)
    before = tiny_network().classifier.backbone.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in method.network_.backbone.state_dict().items())


def test_the_options_are_those_of_meta_training() -> None:
    """Else sessions were not what was trained for."""
    from fscil.objectives.metafscil import MetaFSCILObjective

    mine, theirs = make("metafscil").options(), MetaFSCILObjective.Options()
    assert {key: value for key, value in mine.items() if key != "scale"} == {
        key: getattr(theirs, key) for key in ("steps", "lr", "warmup_steps", "warmup_lr")
    }


def test_of_two_sessions_the_second_goes_on_from_the_first() -> None:
    options = {"steps": 2, "lr": 0.02, "warmup_steps": 1}
    first, second = learning(1, **options), learning(2, **options)
    session = prepared(first, tiny_benchmark())[2]
    assert session.images is not None
    network = first._modulated()
    weights = {name: weight.detach().requires_grad_() for name, weight in weights_of(network).items()}
    how = Adaptation(2, 0.02, 1, 0.1, 16.0)
    weights, rows = adapted(network, weights, first.rows_, session.images, session.labels, how)
    assert torch.allclose(rows, second.rows_)
    assert all(torch.allclose(weights[name], value) for name, value in second.network_.backbone.named_parameters())

"""FCIL-style infomax: whole losses with gradients against plain loops; the bound, the relations, what stays."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, WAY, exam_view, prepared, tiny_benchmark, tiny_network
from torch import Tensor

from fscil.data import Session
from fscil.methods import FCIL, Prototypes, make
from fscil.methods.base import features
from fscil.methods.fcil import Critic, Projector, divergence, info_nce, levels, relations

QUICK: dict[str, Any] = {"critic_steps": 5, "hidden": 12, "width": 10, "augment": {"translate": 0.1}}


def learned(until: int, **options: Any) -> tuple[FCIL, list[Session]]:
    method = make("fcil", {**QUICK, **options})
    assert isinstance(method, FCIL)
    method.start(seed=0, depth=DEPTH, device=CPU)
    sessions = prepared(method, tiny_benchmark())
    for session in sessions[: until + 1]:
        (method.fit_novel if session.index else method.fit_base)(session)
    return method, sessions


def points(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(x: Tensor) -> Tensor:
    return x / (x * x).sum(-1, keepdim=True).sqrt()


def rotation(dim: int) -> Tensor:
    return torch.linalg.qr(points(dim, dim, seed=8))[0]


def test_the_bound_never_exceeds_mutual_information() -> None:
    """Of two normal numbers with a known correlation, asked about by the best of all critics, in large samples."""
    r, n = 0.9, 400
    truth = -0.5 * math.log(1 - r * r)
    found = []
    for seed in range(20):
        x, noise = points(2, n, seed=seed)
        y = r * x + (1 - r * r) ** 0.5 * noise
        likely = -(y[:, None] - r * x[None]).square() / (2 * (1 - r * r))  # log p(y_i | x_j), but for a constant
        found.append(math.log(n) - float(info_nce(likely)))
    mean = sum(found) / len(found)
    assert mean < truth + 0.02
    assert mean > truth - 0.1
    assert max(found) <= math.log(n)


def test_of_identical_orthogonal_features_nothing_is_missed_and_at_a_high_temperature_all() -> None:
    x = torch.eye(7)
    for temperature, wanted in ((0.01, 0.0), (1e6, math.log(7))):
        assert float(info_nce(x @ x.T / temperature)) == pytest.approx(wanted, abs=1e-4)
    y = unit(points(7, 5))
    assert float(info_nce(y @ unit(points(7, 5, seed=1)).T / 1e6)) == pytest.approx(math.log(7), abs=1e-4)


def relations_in_loops(prototypes: Tensor, temperature: float) -> list[list[Tensor]]:
    found = []
    for c, own in enumerate(prototypes):
        scores = [unit(own) @ unit(other) / temperature for k, other in enumerate(prototypes) if k != c]
        total = sum(score.exp() for score in scores)
        found.append([score.exp() / total for score in scores])
    return found


def test_relations_against_loops() -> None:
    prototypes = points(5, 4)
    wanted = torch.tensor([[float(share) for share in row] for row in relations_in_loops(prototypes, 0.7)])
    assert torch.allclose(relations(prototypes, 0.7).exp(), wanted, atol=1e-6)


def test_relations_change_if_a_class_moves_and_not_if_all_turn_alike() -> None:
    prototypes = points(6, 4)
    before = relations(prototypes, 0.1)
    assert float(divergence(before, before)) == 0
    other = relations(points(6, 4, seed=1), 0.5)
    pairs = zip(before.flatten().tolist(), other.flatten().tolist(), strict=True)
    wanted = sum(math.exp(p) * (p - q) for p, q in pairs) / 6
    assert float(divergence(before, other)) == pytest.approx(wanted, rel=1e-4)
    assert float(divergence(other, before)) != pytest.approx(wanted, rel=0.05)
    turned = prototypes @ rotation(4)
    assert not torch.allclose(turned, prototypes, atol=0.1)
    assert float(divergence(before, relations(turned, 0.1))) == pytest.approx(0, abs=1e-5)
    moved = prototypes.clone()
    moved[2] = points(4, seed=5)
    assert float(divergence(before, relations(moved, 0.1))) > 0.1


def embedding_loss_in_loops(method: FCIL, frozen: list[Tensor], now: Tensor, temperature: float) -> Tensor:
    total = torch.zeros(())
    for number, level in enumerate(frozen):
        theirs = [*level, *method.level_means_[number]]
        keys = [unit(method.critic_.maps[number].weight @ (unit(x) * len(x) ** 0.5)) for x in theirs]
        for own, x in enumerate(now):
            query = unit(method.critic_.told.weight @ (unit(x) * len(x) ** 0.5))
            shares = [(query @ key / temperature).exp() for key in keys]
            total = total - (shares[own] / sum(shares)).log() / (len(now) * len(frozen))
    return total


def projected_in_loops(projector: Projector, x: Tensor) -> Tensor:
    first, _, last = projector.layers
    start = unit(x) * len(x) ** 0.5
    return start + last.weight @ (first.weight @ start + first.bias).clamp(min=0) + last.bias  # type: ignore[operator]


def test_a_session_against_plain_loops() -> None:
    """Three steps of SGD with momentum on the whole loss, with a projector that is no identity and classes apart."""
    options = {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.03, "weight_embedding": 0.7, "weight_structure": 30.0}
    method, sessions = learned(1, steps=3, copies=3, temperature=0.4, scale=5.0, **options)
    session = sessions[2]
    method.prototypes_ = unit(points(*method.prototypes_.shape))
    with torch.no_grad():
        method.projector_.layers[2].weight += points(16, 12, seed=6)
    assert session.images is not None
    assert session.view is not None
    state = copy.deepcopy(method)
    before = [projected_in_loops(state.projector_, p).detach() for p in state.prototypes_]
    old = relations_in_loops(torch.stack(before), 0.4)
    projector = copy.deepcopy(state.projector_).requires_grad_()
    means = [unit(unit(session.view.final)[session.labels == c].mean(0)) for c in session.classes]
    prototypes = [*state.prototypes_, *means]
    # The same copies and the same choices among them.
    drawn: list[list[Tensor]] = []
    real = FCIL._embedding_loss

    def noted(self: FCIL, frozen: list[Tensor], now: Tensor) -> Tensor:
        drawn.append([level.clone() for level in frozen])
        return real(self, frozen, now)

    FCIL._embedding_loss = noted  # type: ignore[method-assign]
    try:
        method.fit_novel(session)
    finally:
        FCIL._embedding_loss = real  # type: ignore[method-assign]
    labels = session.labels.repeat(2).tolist()
    structure: list[float] = []
    momenta = [torch.zeros_like(parameter) for parameter in projector.parameters()]
    for frozen in drawn:
        now = torch.stack([projected_in_loops(projector, x) for x in frozen[-1]])
        table = torch.stack([projected_in_loops(projector, p) for p in prototypes])
        loss = torch.zeros(())
        for x, label in zip(now, labels, strict=True):
            scores = torch.stack([5 * unit(x) @ unit(row) for row in table])
            loss = loss - scores.log_softmax(0)[label] / len(labels)
        new = relations_in_loops(table[: len(before)], 0.4)
        kl = sum(a * (a / b).log() for one, two in zip(old, new, strict=True) for a, b in zip(one, two, strict=True))
        structure.append(float(kl.detach()) / len(before))  # type: ignore[union-attr]
        loss = loss + 30.0 * kl / len(before) + 0.7 * embedding_loss_in_loops(state, frozen, now, 0.4)
        slopes = torch.autograd.grad(loss, list(projector.parameters()))
        assert min(float(slope.norm()) for slope in slopes) > 1e-4
        with torch.no_grad():
            for parameter, momentum, slope in zip(projector.parameters(), momenta, slopes, strict=True):
                momentum.mul_(0.8).add_(slope + 0.03 * parameter)
                parameter -= 0.1 * momentum
    assert len(drawn) == 3
    assert structure[0] == pytest.approx(0, abs=1e-5)  # nothing has moved
    assert structure[-1] > 1e-3
    for got, wanted in zip(method.projector_.parameters(), projector.parameters(), strict=True):
        assert torch.allclose(got, wanted, atol=2e-5)
    assert torch.allclose(method.prototypes_, torch.stack(prototypes), atol=1e-6)


def test_a_step_sees_two_copies_of_every_shot() -> None:
    method, sessions = learned(0, copies=4, steps=3)
    session, shown = sessions[1], []
    real = FCIL._embedding_loss
    FCIL._embedding_loss = lambda self, frozen, now: (shown.append(frozen[-1]), real(self, frozen, now))[1]  # type: ignore[method-assign]
    try:
        method.fit_novel(session)
    finally:
        FCIL._embedding_loss = real  # type: ignore[method-assign]
    assert [len(each) for each in shown] == [2 * len(session)] * 3
    assert not any(torch.equal(each[: len(session)], each[len(session) :]) for each in shown)
    assert not torch.equal(shown[0], shown[1])


def test_before_any_session_and_without_a_rate_it_is_the_prototype_baseline() -> None:
    method, sessions = learned(SESSIONS, lr=0.0, steps=1)
    plain = Prototypes()
    for session in sessions:
        (plain.fit_novel if session.index else plain.fit_base)(session)
    view = exam_view(method, tiny_benchmark(), SESSIONS)
    assert torch.allclose(method.scores(view), 16 * plain.scores(view), atol=1e-4)


def test_the_network_and_the_critic_stay_and_there_is_one_vector_for_each_class() -> None:
    before = copy.deepcopy(tiny_network().classifier.state_dict())
    method, sessions = learned(0)
    critic, vectors = copy.deepcopy(method.critic_.state_dict()), method.prototypes_
    for session in sessions[1:]:
        method.fit_novel(session)
    assert all(torch.equal(value, before[name]) for name, value in tiny_network().classifier.state_dict().items())
    assert all(torch.equal(value, critic[name]) for name, value in method.critic_.state_dict().items())
    assert method.prototypes_.shape == (BASE + WAY * SESSIONS, 16)
    assert torch.equal(method.prototypes_[:BASE], vectors)
    assert [means.shape for means in method.level_means_] == [(BASE, 16), (BASE, 16)]
    assert any(parameter.abs().sum() > 0 for parameter in method.projector_.layers[2].parameters())


def test_the_critic_learns_to_tell_images_by_their_levels() -> None:
    losses = []
    for steps in (0, 200):
        method, sessions = learned(0, critic_steps=steps)
        assert sessions[0].images is not None
        found = levels(tiny_network().classifier.backbone, sessions[0].images)
        losses.append(float(method._embedding_loss(found, found[-1])))
    assert losses[1] < 0.8 * losses[0]


def test_levels_are_the_features_before_and_after_the_last_stage() -> None:
    session = prepared(make("fcil"), tiny_benchmark())[0]
    assert session.images is not None
    backbone = tiny_network().classifier.backbone
    early, final = levels(backbone, session.images, batch_size=30)
    assert torch.allclose(final, features(session).final, atol=1e-5)
    inner = backbone.forward_until(session.images[:1], DEPTH - 1)
    assert torch.allclose(early[0], sum(inner[0]) / inner.shape[1], atol=1e-5)


def test_projector_and_critic_are_blind_to_lengths() -> None:
    projector, critic, x = Projector(6, 4), Critic([3, 6], 5), points(2, 6)
    assert torch.allclose(projector(x), projector(7 * x), atol=1e-5)
    assert torch.allclose(unit(projector(x)), unit(x), atol=1e-6)  # adds nothing at first
    assert torch.allclose(critic.of_features(x), critic.of_features(7 * x), atol=1e-5)

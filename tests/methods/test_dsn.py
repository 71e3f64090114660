"""DSN: whole sessions against plain loops; gates, recalled features and borrowed covariances by hand."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, WAY, exam_view, prepared, tiny_benchmark, tiny_network
from torch import Tensor

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data import Session
from fscil.methods import make
from fscil.methods.copies import Copies
from fscil.methods.dsn import DSN, Layers, borrowed, draw, moments, nearness, sampling_factors
from fscil.training.checkpoint import Classifier

NODES = 6
ODD: dict[str, Any] = {  # numbers that no two of can be mistaken for each other
    "epochs": 3, "batch": 20, "lr": 0.05, "momentum": 0.8, "dampening": 0.3, "blend": 0.4, "samples": 2, "most": 3,
    "new_samples": 4, "rivals": 3, "refresh": 2, "inertia": 0.7, "weight_gates": 0.6, "weight_distilled": 0.9,
    "temperature": 1.7, "scale": 5.0, "augment": {"translate": 0.3},
}  # fmt: skip


def started(**options: Any) -> DSN:
    method = make("dsn", options)
    assert isinstance(method, DSN)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def with_a_layer(sessions: list[Session]) -> list[Session]:
    """As base training with the objective dsn leaves it: fewer nodes than features.

    The rows of two base classes lie where all images of an untrained network do, so that new ones come close to them.
    """
    random, base = torch.Generator().manual_seed(7), sessions[0]
    assert base.view is not None
    first, rows = torch.randn(NODES, 16, generator=random), torch.randn(BASE, NODES, generator=random)
    rows[[2, 5]] = (base.view.final.mean(0) @ first.T).expand(2, -1)
    return [dataclasses.replace(base, extras={"first.weight": first, "classes.weight": rows}), *sessions[1:]]


def learned(method: DSN, until: int) -> list[Session]:
    sessions = with_a_layer(prepared(method, tiny_benchmark()))
    for session in sessions[: until + 1]:
        (method.fit_novel if session.index else method.fit_base)(session)
    return sessions


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def answers_in_loops(
    x: Tensor, first: Tensor, rows: list[Tensor], nodes: list[Tensor], gates: Any, blend: float
) -> Tensor:
    """Cosines of one feature, number by number; gates of every session."""
    inner = unit(first @ x)
    found = [inner @ unit(row) for row in rows[0]]
    for own, layer, gate in zip(rows[1:], nodes, gates, strict=True):
        node = torch.stack([unit(x) @ unit(layer[k]) * gate[k] for k in range(len(layer))])
        found += [unit(blend * inner + node) @ unit(row) for row in own]
    return torch.stack(found)


def random_layers(sessions: int = 2, dim: int = 5, nodes: int = 4) -> Layers:
    random = torch.Generator().manual_seed(1)
    rows = [torch.randn(count, nodes, generator=random) for count in (3, *[2] * sessions)]
    layers = [torch.randn(nodes, dim, generator=random) for _ in range(sessions)]
    gates = [torch.rand(nodes, generator=random) for _ in range(sessions)]
    return Layers(0.3, torch.randn(nodes, dim, generator=random), rows, layers, gates)


def test_scores_against_loops() -> None:
    layers, x = random_layers(), torch.randn(7, 5, generator=torch.Generator().manual_seed(2))
    expected = [answers_in_loops(f, layers.first, layers.rows, layers.nodes, layers.gates, 0.3) for f in x]
    assert torch.allclose(layers.cosines(x), torch.stack(expected), atol=1e-5)
    assert layers.cosines(x).shape == (7, 3 + 2 * 2)


def test_gates_are_asked_for_by_new_features_alone() -> None:
    layers, x = random_layers(), torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
    new = torch.tensor([False, True, True, False, True, False])
    answers, gates = layers.learning(x, new, 3.0)
    assert gates is not None
    for node in range(4):
        mean = sum(float(unit(f) @ unit(layers.nodes[-1][node])) for f in x[new]) / 3
        assert float(gates[node]) == pytest.approx(1 / (1 + math.exp(-3 * mean)), abs=1e-5)
    assert ((gates > 0) & (gates < 1)).all()
    for place, feature in enumerate(x):
        own = [layers.gates[0], gates if new[place] else layers.gates[1]]
        expected = answers_in_loops(feature, layers.first, layers.rows, layers.nodes, own, 0.3)
        assert torch.allclose(answers[place], expected, atol=1e-5)
    alone, none = layers.learning(x, torch.zeros(6, dtype=torch.bool), 3.0)
    assert none is None
    assert torch.equal(alone, layers.cosines(x))


def test_a_gate_is_half_open_where_new_features_say_nothing() -> None:
    layers, x = random_layers(), torch.zeros(2, 5)
    layers.nodes[-1] = torch.eye(5)[:4]
    x[0], x[1] = torch.tensor([1.0, 1, 0, 0, 0]), torch.tensor([-1.0, 1, 0, 0, 0])
    _, gates = layers.learning(x, torch.ones(2, dtype=torch.bool), 9.0)
    assert gates is not None
    assert gates.tolist() == pytest.approx([0.5, 1 / (1 + math.exp(-9 / math.sqrt(2))), 0.5, 0.5])


def moments_in_numpy(x: Tensor, labels: Tensor, count: int) -> tuple[Any, Any]:
    parts = [x[labels == c].double().numpy() for c in range(count)]
    return np.stack([part.mean(0) for part in parts]), np.stack([np.cov(part.T) for part in parts])


def factors_in_numpy(covariances: Any) -> Any:
    jitter = 1e-6 * np.mean([np.diag(each).mean() for each in covariances])
    return np.stack([np.linalg.cholesky(each + jitter * np.eye(len(each))) for each in covariances])


def softmax(values: list[float]) -> Any:
    parts = np.exp(np.array(values))
    return parts / parts.sum()


@pytest.mark.parametrize(("trains", "index"), [("session", 1), ("session", 2), ("all", 1), ("all", 2)])
def test_a_session_against_a_slow_twin(trains: str, index: int) -> None:
    method = started(**ODD, trains=trains)
    sessions = learned(method, index - 1)
    session, old = sessions[index], BASE + WAY * (index - 1)
    assert session.images is not None
    if trains == "all":
        method.allowed_ = torch.tensor(0.4)
    copies, own = Copies(session, method.augment, 0), session.labels - old
    base_spreads = method.covariances_[:BASE].double().numpy()
    mean, spread = moments_in_numpy(copies.anew(session.images, 10_000 * index), own, WAY)
    first, allowed = method.first_.clone(), method.allowed_.clone()
    rows, nodes = [part.clone() for part in method.rows_], [part.clone() for part in method.nodes_]
    rows.append(torch.stack([unit(first @ torch.from_numpy(m).float()) for m in mean]))
    nodes.append(first.clone())
    before = ([part.clone() for part in (first, *rows[:-1])], [part.clone() for part in nodes[:-1]])
    gates = [*method.gates_, torch.zeros(NODES)]
    parts = [nodes[-1], rows[-1]] if trains == "session" else [first, *nodes, *rows, allowed]
    parts = [part.requires_grad_() for part in parts]
    speeds: list[Tensor | None] = [None] * len(parts)
    random, factors = method._generator(index, CPU), factors_in_numpy(method.covariances_.double().numpy())
    calls, seen_counts = [0] * old, []
    for epoch in range(3):
        if epoch % 2 == 0:
            shots = copies.anew(session.images, 10_000 * index + 1 + epoch)
            fresh_mean, fresh_spread = moments_in_numpy(shots, own, WAY)
            mean, spread = 0.7 * mean + 0.3 * fresh_mean, 0.7 * spread + 0.3 * fresh_spread
            counts = [min(3, 2 + more) for more in calls]
            seen_counts.append(counts)
            calls = [0] * old
            noise = torch.randn(old, max(counts), 16, generator=random).double().numpy()
            new_noise = torch.randn(WAY, 4, 16, generator=random).double().numpy()
            x, labels = [], []
            for c in range(old):
                for k in range(counts[c]):
                    x.append(factors[c] @ noise[c, k] + method.means_[c].double().numpy())
                    labels.append(c)
            new_factors = factors_in_numpy(spread)
            for c in range(WAY):
                x += [new_factors[c] @ new_noise[c, k] + mean[c] for k in range(4)]
                labels += [old + c] * 4
            lesson = torch.cat([torch.from_numpy(np.stack(x)).float(), shots])
            labels += session.labels.tolist()
        order = torch.rand(len(lesson), generator=random).argsort().tolist()
        named: dict[int, Any] = {}
        for start in range(0, len(order), 20):
            chosen = order[start : start + 20]
            new = [row for row in chosen if labels[row] >= old]
            asked = None
            if new:
                asked = torch.stack(
                    [sum(unit(lesson[r]) @ unit(nodes[-1][k]) for r in new) / len(new) for k in range(NODES)]
                )
                asked = torch.sigmoid((1 + epoch) * asked)
            loss, distilled = torch.zeros(()), torch.zeros(())
            for row in chosen:
                now = [*gates[:-1], asked if row in new else gates[-1]]
                found = answers_in_loops(lesson[row], first, rows, nodes, now, 0.4)
                named[row] = found.detach().double().numpy()
                loss = loss - (5.0 * found).log_softmax(0)[labels[row]] / len(chosen)
                said = answers_in_loops(lesson[row], before[0][0], before[0][1:], before[1], gates[:-1], 0.4)
                wanted = (5.0 * said / 1.7).softmax(0)
                distilled = distilled - (wanted * (5.0 * found[:old] / 1.7).log_softmax(0)).sum() / len(chosen)
            loss = loss + 0.9 * distilled
            if asked is not None:
                loss = loss + 0.6 * (asked.mean() - allowed).clamp(min=0)
            gradients = torch.autograd.grad(loss, parts, allow_unused=True)
            with torch.no_grad():
                for place, (part, gradient) in enumerate(zip(parts, gradients, strict=True)):
                    if gradient is None:
                        continue
                    speed = speeds[place]
                    speeds[place] = gradient.clone() if speed is None else 0.8 * speed + 0.7 * gradient
                    part -= 0.05 * speeds[place]  # type: ignore[operator]
            if asked is not None:
                gates[-1] = asked.detach()
        for c in range(WAY):
            members = [row for row in range(len(lesson) - len(shots), len(lesson)) if labels[row] == old + c]
            near = np.mean([softmax([*named[r][:BASE], named[r][old + c]]) for r in members], axis=0)
            fresh_spread[c] = near[BASE] * fresh_spread[c] + sum(near[j] * base_spreads[j] for j in range(BASE))
            rivals = np.mean([softmax([*named[r][:old], named[r][old + c]]) for r in members], axis=0)
            for j in np.argsort(-rivals[:old])[:3]:
                calls[j] += int(rivals[j] >= rivals[old])
        mean, spread = 0.7 * mean + 0.3 * fresh_mean, 0.7 * spread + 0.3 * fresh_spread
    mean, spread = 0.7 * mean + 0.3 * fresh_mean, 0.7 * spread + 0.3 * fresh_spread
    method.fit_novel(session)
    assert seen_counts[0] == [2] * old
    assert 3 in seen_counts[1]  # so that what is recalled depends on the counts
    for got, wanted in zip([method.first_, *method.rows_, *method.nodes_], [first, *rows, *nodes], strict=True):
        assert torch.allclose(got, wanted, atol=1e-3)
    for got, wanted in zip(method.gates_, gates, strict=True):
        assert torch.allclose(got, wanted, atol=1e-3)
    assert float(method.allowed_) == pytest.approx(float(allowed.detach()), abs=1e-4)
    assert (float(method.allowed_) > 0.4) == (trains == "all")
    assert torch.allclose(method.means_[old:].double(), torch.from_numpy(mean), atol=1e-4)
    assert torch.allclose(method.covariances_[old:].double(), torch.from_numpy(spread), atol=1e-3)


def test_what_earlier_sessions_answer_stays_to_the_last_bit() -> None:
    method = started(epochs=4)
    sessions = learned(method, 0)
    view = exam_view(method, tiny_benchmark())
    before = method.scores(view)
    for session in sessions[1:]:
        method.fit_novel(session)
        after = method.scores(view)
        assert torch.equal(after[:, : before.shape[1]], before)
        assert after.shape[1] == BASE + WAY * session.index
        before = after
    assert len(method.nodes_) == len(method.gates_) == SESSIONS
    assert method.means_.shape == (BASE + WAY * SESSIONS, 16)


def test_all_layers_learn_where_they_are_to() -> None:
    method = started(epochs=2, trains="all")
    sessions = learned(method, 1)
    before = [part.clone() for part in (method.first_, *method.rows_, *method.nodes_)]
    method.fit_novel(sessions[2])
    after = [method.first_, *method.rows_[:2], *method.nodes_[:1]]
    assert not any(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_a_session_starts_as_the_first_layer_and_the_class_means() -> None:
    method = started(epochs=1, lr=0.0)
    sessions = learned(method, 1)
    final = sessions[1].view.final  # type: ignore[union-attr]
    means = torch.stack([final[sessions[1].labels == c].mean(0) for c in sessions[1].classes])
    assert torch.equal(method.nodes_[0], method.first_)
    assert torch.allclose(method.rows_[1], unit(means @ method.first_.T), atol=1e-4)
    assert torch.allclose(method.rows_[1].norm(dim=1), torch.ones(WAY))


def test_moments_of_the_base_session_are_of_augmented_images_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fscil.methods.dsn.CHUNK", 30)
    method = started(augment={"translate": 0.3})
    sessions = learned(method, 0)
    session = sessions[0]
    assert session.images is not None
    copies = Copies(session, method.augment, 0)
    x = torch.cat([copies.anew(session.images[30 * k : 30 * (k + 1)], k) for k in range(4)])
    means, spreads = moments_in_numpy(x, session.labels, BASE)
    assert torch.allclose(method.means_.double(), torch.from_numpy(means), atol=1e-4)
    assert torch.allclose(method.covariances_.double(), torch.from_numpy(spreads), atol=1e-4)
    plain = started()
    learned(plain, 0)
    assert not torch.allclose(plain.means_, method.means_, atol=1e-3)


def test_a_class_of_one_image_has_no_spread_of_its_own() -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    means, spreads = moments(x, torch.tensor([0, 1, 1, 1]), 2)
    assert torch.equal(means[0], x[0])
    assert not spreads[0].any()
    assert torch.allclose(spreads[1].double(), torch.from_numpy(np.cov(x[1:].double().numpy().T)), atol=1e-5)


def test_drawn_features_have_the_moments_they_are_drawn_by() -> None:
    random = torch.Generator().manual_seed(0)
    few = torch.randn(3, 4, generator=random)  # a covariance of rank 2
    covariance = torch.stack(
        [torch.diag(torch.tensor([1.0, 4.0, 0.0, 9.0])), few.T @ few / 3 - few.mean(0).outer(few.mean(0))]
    )
    means = torch.tensor([[1.0, -2.0, 3.0, 0.0], [0.0, 0.0, 5.0, 1.0]])
    counts = torch.tensor([20_000, 30_000])
    x, names = draw((means, sampling_factors(covariance)), counts, random)
    assert names.bincount().tolist() == counts.tolist()
    for c in (0, 1):
        assert torch.allclose(x[names == c].mean(0), means[c], atol=0.07)
        assert torch.allclose(x[names == c].T.cov(), covariance[c], atol=0.2)
    assert len(draw((means, sampling_factors(covariance)), torch.tensor([0, 0]), random)[0]) == 0


def test_borrowed_covariances_are_mixtures() -> None:
    random = torch.Generator().manual_seed(0)
    found, labels = torch.rand(10, 7, generator=random), torch.tensor([5, 6] * 5)
    near = nearness(found, labels, 3, 2)
    assert torch.allclose(near.sum(1), torch.ones(2))
    for c in (0, 1):
        rows = [softmax([*found[r, :3].tolist(), float(found[r, 5 + c])]) for r in range(10) if labels[r] == 5 + c]
        assert near[c].tolist() == pytest.approx(np.mean(rows, axis=0).tolist())
    roots = torch.randn(6, 4, 4, generator=random)
    covariances = roots @ roots.mT
    mixed = borrowed(covariances[4:], near, covariances[:4])  # the fourth is of a later class, and lends nothing
    for c in (0, 1):
        expected = near[c, 3] * covariances[4 + c] + sum(near[c, j] * covariances[j] for j in range(3))
        assert torch.allclose(mixed[c], expected, atol=1e-4)
    assert torch.allclose(mixed, mixed.mT, atol=1e-5)
    assert torch.linalg.eigvalsh(mixed).min() > 0


def test_old_classes_that_come_close_are_recalled_more_often() -> None:
    near = torch.tensor([[0.1, 0.3, 0.25, 0.15, 0.2], [0.05, 0.4, 0.02, 0.33, 0.2]])
    assert started(rivals=2)._called(near).tolist() == [0, 2, 1, 1]
    assert started(rivals=1)._called(near).tolist() == [0, 2, 0, 0]
    assert started(rivals=9)._called(near).tolist() == [0, 2, 1, 1]
    assert started(rivals=0)._called(near).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("head", ["cosine", "linear"])
def test_without_a_layer_of_base_training(head: str) -> None:
    """The first layer changes nothing; base classes have the rows of a cosine head, or the mean of their features."""
    method = started()
    session = prepared(method, tiny_benchmark())[0]
    assert session.view is not None
    final = session.view.final
    rows = tiny_network().classifier.head.weight
    if head == "linear":
        torch.manual_seed(0)
        network = Classifier(BackboneConfig(image_size=8, patch_size=4, embed_dim=16), TrainConfig(head="linear"), BASE)
        session = dataclasses.replace(session, network=network.eval(), head=network.head.weight.detach())
        rows = torch.stack([unit(unit(final[session.labels == c]).mean(0)) for c in range(BASE)])
    method.fit_base(session)
    view = exam_view(method, tiny_benchmark())
    assert torch.equal(method.first_, torch.eye(16))
    assert torch.allclose(method.scores(view), unit(view.final) @ unit(rows).T, atol=1e-5)


def test_copies_of_mixed_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"options\.dsn\.augment makes copies of single images"):
        make("dsn", {"augment": {"cutmix": 0.5}})

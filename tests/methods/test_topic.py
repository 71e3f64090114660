"""TOPIC: neural gas, anchors and a step of a session against plain loops; what stays, stays to the last bit."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, WAY, kept_for, prepared, tiny_benchmark, tiny_network
from torch import Tensor

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data import Session
from fscil.data.session import PixelView
from fscil.evaluation.kept_images import KeptImages
from fscil.evaluation.protocol import prepare
from fscil.methods import TOPIC, make
from fscil.methods.networks import seen
from fscil.methods.neural_gas import Anchors, NeuralGas, start_nodes
from fscil.training.checkpoint import Checkpoint, Classifier

FEW: dict[str, Any] = {"nodes": 12, "steps": 3, "drop": 1}


def points(count: int, dim: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def square(a: Any, b: Any) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def gas_in_loops(
    nodes: list[list[float]], features: list[list[float]], rate: float, reach: float, lifetime: int
) -> Any:
    """Nodes and {edge: age}, number by number."""
    nodes, ages = [list(node) for node in nodes], dict[frozenset[int], int]()
    for feature in features:
        order = sorted(range(len(nodes)), key=lambda k: square(nodes[k], feature))
        first, second = order[0], order[1]
        for edge in [edge for edge in ages if first in edge]:
            ages[edge] += 1
        ages[frozenset((first, second))] = 0
        ages = {edge: age for edge, age in ages.items() if age <= lifetime}
        for rank, k in enumerate(order, start=1):
            pull = rate * math.exp(-rank / reach)
            nodes[k] = [m + pull * (f - m) for m, f in zip(nodes[k], feature, strict=True)]
    return nodes, ages


@pytest.mark.parametrize(("lifetime", "reach"), [(2, 0.5), (5, 3.0), (1000, 1.0)])
def test_neural_gas_against_loops(lifetime: int, reach: float) -> None:
    start, features = points(7, seed=1), points(60)
    gas = NeuralGas(start.clone(), lifetime)
    gas.fit(features, 0.3, reach)
    nodes, ages = gas_in_loops(start, features, 0.3, reach, lifetime)
    assert torch.allclose(gas.nodes, torch.tensor(nodes), atol=1e-5)
    assert {frozenset(edge): int(gas.ages[edge[0], edge[1]]) for edge in map(tuple, gas.edges().tolist())} == ages
    assert torch.equal(gas.ages, gas.ages.T)
    assert (gas.ages.diagonal() == -1).all()
    assert gas.ages.max() <= lifetime
    assert len(gas.nodes) == 7


def test_the_winner_moves_towards_a_feature_and_connecting_moves_nothing() -> None:
    gas, features = NeuralGas(points(7, seed=1), 5), points(20)
    for feature in features:
        winner, before = int(gas.winners(feature[None])), gas.nodes.clone()
        gas.connect(feature[None])
        assert torch.equal(gas.nodes, before)
        gas.fit(feature[None], 0.3, 2.0)
        assert square(gas.nodes[winner], feature) < square(before[winner], feature)


def test_new_nodes_have_no_edges_and_old_edges_stay() -> None:
    gas = NeuralGas(points(7, seed=1), 50)
    gas.fit(points(60), 0.3, 2.0)
    grown = gas.grown(points(2, seed=5))
    assert torch.equal(grown.edges(), gas.edges())
    assert torch.equal(grown.ages[:7, :7], gas.ages)
    assert torch.equal(grown.nodes[:7], gas.nodes)


def test_anchors_against_loops() -> None:
    features, labels = points(80), torch.arange(80) % 4
    gas = NeuralGas(torch.cat([points(9, seed=3), torch.full((1, 3), 99.0)]), 5)  # nobody's nearest: the last
    anchors = Anchors(gas, features, labels)
    nodes = gas.nodes.tolist()
    members: dict[int, list[int]] = {}
    for row, feature in enumerate(features.tolist()):
        members.setdefault(min(range(10), key=lambda k: square(nodes[k], feature)), []).append(row)
    assert anchors.nodes.tolist() == sorted(members)
    assert 9 not in members
    for place, node in enumerate(sorted(members)):
        of_class = {c: [row for row in members[node] if labels[row] == c] for c in range(4)}
        chosen = max(range(4), key=lambda c: len(of_class[c]))
        assert anchors.labels[place] == chosen
        rows = of_class[chosen]
        nearest = min(rows, key=lambda row: square(nodes[node], features[row].tolist()))
        assert anchors.rows[place] == nearest
        mean = features[rows].sum(0) / len(rows)
        assert torch.allclose(anchors.variances[place], (features[rows] - mean).square().sum(0) / len(rows), atol=1e-5)


def test_no_node_starts_as_an_image() -> None:
    features, labels = points(20), torch.arange(20) % 4
    nodes = start_nodes(features, labels, 6, torch.Generator().manual_seed(0))
    assert nodes.shape == (6, 3)
    assert torch.cdist(nodes, features).min() > 1e-3


def learning(method: TOPIC, until: int = 0, network: Checkpoint | None = None) -> tuple[KeptImages, list[Session]]:
    method.start(seed=0, depth=DEPTH, device=CPU)
    sessions = prepared(method, tiny_benchmark())
    if network:
        count = range(SESSIONS + 1)
        sessions = [prepare(tiny_benchmark().session(i), method, None, CPU, network) for i in count]  # type: ignore[arg-type]
    kept = kept_for(method)
    for session in sessions[: until + 1]:
        kept.learn(session)
    return kept, sessions


def convolutional(head: str = "cosine", objective: str = "cross_entropy") -> Checkpoint:
    torch.manual_seed(0)
    backbone = BackboneConfig(kind="resnet20", image_size=8)
    network = Classifier(backbone, TrainConfig(head=head, objective=objective), BASE)  # type: ignore[arg-type]
    return Checkpoint(network.eval().requires_grad_(False), {"classes": BASE, "outputs": BASE})


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("form", ["released", "paper"])
def test_a_step_of_a_session_by_hand(form: str) -> None:
    method = TOPIC(
        nodes=12, steps=1, drop=0, lr=0.05, momentum=0.9, weight_decay=0.1, weight_anchor=3.0, weight_min=0.7,
        weight_max=0.5, margin=1.5, node_lr=2.0, anchor_loss=form,  # type: ignore[arg-type]
    )  # fmt: skip
    kept, sessions = learning(method)
    memory, session = kept._memory(sessions[0]), sessions[1]
    assert session.images is not None
    backbone: Any = copy.deepcopy(method.network_.backbone)
    old, count = method.rows_, len(session.images)
    fresh = 1e-3 * torch.randn(WAY, 16, generator=method._generator(1, CPU))
    before = unit(seen(method.network_, session.images))
    starts = torch.stack([before[session.labels == c].mean(0) for c in session.classes])
    # Edges: every shot connects its two nearest nodes; none moves, and none here is old enough to go.
    nodes = torch.cat([method.nodes_, starts])
    old_edges = {frozenset(e) for e in torch.nonzero((method.ages_ != -1).triu(1)).tolist()}
    edges = set(old_edges)
    for shot in before:
        edges.add(frozenset(sorted(range(len(nodes)), key=lambda k: square(nodes[k], shot))[:2]))
    names = [*method.labels_.tolist(), *session.classes]
    rivals = [sorted(e) for e in edges if max(e) >= 12 and -1 not in (names[k] for k in e)]
    assert rivals
    inputs = {n: p for n, p in backbone.named_parameters() if n.startswith(f"trunk.blocks.{DEPTH - 1}.")}
    rows, centres = fresh.clone().requires_grad_(), starts.clone().requires_grad_()
    backbone.train().requires_grad_(True)
    loss = torch.zeros(())
    for image, label in zip(session.images, session.labels.tolist(), strict=True):
        feature = unit(backbone(image[None])[0])
        z = torch.cat([torch.stack([feature.detach() @ row for row in old]), torch.stack([feature @ r for r in rows])])
        loss = loss + (z.exp().sum().log() - z[label]) / count
        loss = loss + 0.7 * 0.5 * (feature - centres[label - BASE]).square().sum() / count
    for place, image in enumerate(memory.images):
        feature, was = unit(backbone(image[None])[0]), unit(seen(method.network_, image[None]))[0]
        if form == "released":
            loss = loss + 3.0 * (feature - was).square().sum() / 16 / len(memory)
        else:
            apart = feature - method.nodes_[method.anchored_[place]]
            loss = loss + 3.0 * (apart * apart / (method.variances_[place] + 1e-3)).sum() / len(memory)
    for one, other in rivals:
        first = centres[one - 12] if one >= 12 else method.nodes_[one]
        loss = loss + 0.5 * (1.5 - (first - centres[other - 12]).norm()).clamp(min=0)
    gradients = torch.autograd.grad(loss, [*inputs.values(), rows, centres])
    kept.learn(session)

    def stepped(value: Tensor, gradient: Tensor) -> Tensor:  # Nesterov's first step, from rest
        return value.detach() - 0.05 * 1.9 * (gradient + 0.1 * value.detach())

    got = dict(method.network_.backbone.named_parameters())
    for (name, value), gradient in zip(inputs.items(), gradients, strict=False):
        assert torch.allclose(got[name], stepped(value, gradient), atol=2e-6), name
    assert torch.allclose(method.rows_[BASE:], stepped(rows, gradients[-2]), atol=2e-6)
    assert gradients[-1].abs().max() > 1e-3


def test_what_is_not_the_last_block_stays_and_so_do_old_rows_and_statistics() -> None:
    method = TOPIC(**FEW)
    network = convolutional()
    kept, sessions = learning(method, network=network)
    before, rows = copy.deepcopy(method.network_.backbone.state_dict()), method.rows_
    for session in sessions[1:]:
        kept.learn(session)
        assert torch.equal(method.rows_[: len(rows)], rows)
        rows = method.rows_
    assert len(rows) == BASE + WAY * SESSIONS
    changed = {n for n, v in method.network_.backbone.state_dict().items() if not torch.equal(v, before[n])}
    assert changed == {f"trunk.2.2.{part}" for part in (
        "conv1.weight", "conv2.weight", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"
    )}  # fmt: skip


def test_anchors_hold_the_network() -> None:
    """Nothing is lost before the first step, and the more they weigh the less their features move."""
    moved = []
    for weight in (0.0, 30.0, 300.0):
        method = TOPIC(nodes=12, steps=30, drop=0, weight_anchor=weight, lr=0.01)
        kept, sessions = learning(method, network=convolutional())
        anchors = kept._memory(sessions[0]).images
        before = unit(seen(method.network_, anchors))
        assert float(method._anchor_loss(before, before)) == 0
        kept.learn(sessions[1])
        moved.append(float((unit(seen(method.network_, anchors)) - before).square().mean()))
    assert moved[0] > moved[1] > 2 * moved[2] > 0


@pytest.mark.parametrize("grow", [False, True])
def test_anchors_are_base_images_within_the_budget(grow: bool) -> None:
    method = TOPIC(**FEW, grow=grow)
    kept, _ = learning(method, until=SESSIONS)
    assert 0 < len(kept.places) <= 12
    assert (kept.places[:, 0] == 0).all()
    nodes = 12 + WAY * SESSIONS * grow
    assert (len(method.nodes_), len(method.ages_), len(method.labels_)) == (nodes, nodes, nodes)
    assert method.labels_[12:].tolist() == list(range(BASE, BASE + WAY * SESSIONS)) * grow


@pytest.mark.parametrize(("head", "objective"), [("cosine", "cross_entropy"), ("linear", "topic")])
def test_the_base_session_answers_as_the_head_of_base_training(head: str, objective: str) -> None:
    network = convolutional(head, objective)
    method = TOPIC(**FEW)
    learning(method, network=network)
    images = torch.from_numpy(tiny_benchmark()._dataset.test.images)
    features = unit(seen(network.classifier, images))
    assert torch.allclose(method.scores(PixelView(images)), network.classifier.head(features), atol=1e-4)


def test_rows_of_another_space_start_as_class_means() -> None:
    method, network = TOPIC(**FEW, scale=3.0), convolutional("linear")
    _, sessions = learning(method, network=network)
    assert sessions[0].images is not None
    features = unit(seen(network.classifier, sessions[0].images))
    means = unit(torch.stack([features[sessions[0].labels == c].mean(0) for c in range(BASE)]))
    assert torch.allclose(method.rows_, 3 * means, atol=1e-4)


def test_the_last_steps_are_at_a_tenth_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[list[float]] = []
    step = torch.optim.SGD.step

    def noted(self: torch.optim.SGD, *arguments: Any) -> Any:
        rates.append([group["lr"] for group in self.param_groups])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", noted)
    learning(TOPIC(nodes=12, steps=4, drop=1, lr=1.0, node_lr=0.5), until=1)
    assert rates == [pytest.approx([rate, 0.05]) for rate in (1.0, 1.0, 1.0, 0.1)]


def test_copies_of_mixed_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"options\.topic\.augment makes copies of single images"):
        make("topic", {"augment": {"mixup": 0.5}})


def test_the_network_of_others_is_left_alone() -> None:
    before = copy.deepcopy(tiny_network().classifier.state_dict())
    learning(TOPIC(**FEW), until=1)
    assert all(torch.equal(before[name], value) for name, value in tiny_network().classifier.state_dict().items())

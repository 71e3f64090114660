"""IDLVQ: a session's step, its margin and its calibration against plain loops; what is promised of vectors."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, WAY, kept_for, prepared, tiny_benchmark, tiny_network
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data import Session
from fscil.data.session import PixelView
from fscil.evaluation.kept_images import KeptImages
from fscil.methods import IDLVQ, make
from fscil.methods.idlvq import calibrated, distances, drift, margin_loss
from fscil.methods.networks import seen


def learning(method: IDLVQ, until: int = 0) -> tuple[KeptImages, list[Session]]:
    method.start(seed=0, depth=DEPTH, device=CPU)
    kept, sessions = kept_for(method), prepared(method, tiny_benchmark())
    for session in sessions[: until + 1]:
        kept.learn(session)
    return kept, sessions


def points(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def test_distances_against_loops() -> None:
    x, vectors = points(5, 3), points(4, 3, seed=1)
    wanted = [[sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for q in vectors.tolist()] for p in x.tolist()]
    assert torch.allclose(distances(x, vectors), torch.tensor(wanted), atol=1e-5)


def test_the_margin_against_loops() -> None:
    found, labels = points(40, 4).square(), torch.arange(40) % 4
    wanted = []
    for row, label in zip(found.tolist(), labels.tolist(), strict=True):
        rival = min(d for c, d in enumerate(row) if c != label)
        wanted.append(max(0.0, row[label] - rival + 0.3))
    assert 0 < sum(value > 0 for value in wanted) < 40
    assert float(margin_loss(found, labels, 0.3)) == pytest.approx(sum(wanted) / 40, abs=1e-6)


def test_nothing_is_lost_if_every_own_vector_is_nearer_by_the_margin_and_only_then() -> None:
    found = torch.tensor([[0.1, 0.6, 0.9], [0.7, 0.2, 0.8]])
    labels = torch.tensor([0, 1])
    assert float(margin_loss(found, labels, 0.499)) == 0
    assert float(margin_loss(found, labels, 0.502)) > 0


def test_the_drift_against_loops() -> None:
    vectors, places, moves = points(3, 4), points(6, 4, seed=1), points(6, 4, seed=2)
    for vector, got in zip(vectors, drift(vectors, places, moves, 0.8), strict=True):
        weights = [math.exp(-float((place - vector).square().sum()) / (2 * 0.8**2)) for place in places]
        wanted = sum(w * move for w, move in zip(weights, moves, strict=True)) / sum(weights)
        assert torch.allclose(got, wanted, atol=1e-5)


def test_where_everything_moves_alike_every_vector_moves_so() -> None:
    shift = points(4, seed=3)
    assert torch.allclose(drift(points(3, 4), points(6, 4, seed=1), shift.expand(6, -1), 0.3), shift.expand(3, -1))


def test_where_nothing_moves_vectors_stay_to_the_last_bit() -> None:
    vectors = unit(points(3, 4))
    assert torch.equal(calibrated(vectors, points(6, 4), torch.zeros(6, 4), 0.3), vectors)
    moved = calibrated(vectors, points(6, 4), points(6, 4, seed=2), 0.3)
    assert torch.allclose(moved.norm(dim=1), torch.ones(3))
    assert not torch.equal(moved, vectors)


@pytest.mark.parametrize("exemplars", [2, 0])
def test_a_step_of_a_session_by_hand(exemplars: int) -> None:
    method = IDLVQ(
        exemplars=exemplars, steps=1, lr=0.05, vector_lr=0.7, momentum=0.9, weight_decay=0.1, margin=0.4,
        weight_intra=0.3, weight_forget=5.0, reach=0.5,
    )  # fmt: skip
    kept, sessions = learning(method)
    session = sessions[1]
    assert session.images is not None
    shots, labels = session.images, session.labels.tolist()
    held, held_labels = shots, labels
    if exemplars:
        memory = kept._memory(sessions[0])
        held, held_labels = memory.images, memory.labels.tolist()
        assert len(held) == exemplars * BASE
    old = method.vectors_
    frozen: Any = copy.deepcopy(method.network_)
    of_shots = unit(seen(frozen, shots))
    starts = unit(torch.stack([of_shots[session.labels == c].mean(0) for c in session.classes]))
    backbone: Any = copy.deepcopy(frozen.backbone).train().requires_grad_(True)
    inputs = {n: p for n, p in backbone.named_parameters() if n.startswith(f"trunk.blocks.{DEPTH - 1}.")}
    new = starts.clone().requires_grad_()
    loss, count = torch.zeros(()), len(shots) + len(held)
    for image, label in zip([*shots, *held], [*labels, *held_labels], strict=True):
        feature = unit(backbone(image[None])[0])
        apart = [(feature - vector).square().sum() for vector in [*old, *unit(new)]]
        rival = min(d for c, d in enumerate(apart) if c != label)
        loss = loss + ((apart[label] - rival + 0.4).clamp(min=0) + 0.3 * apart[label]) / count
    for image in held:
        moved = unit(backbone(image[None])[0]) - unit(seen(frozen, image[None]))[0]
        loss = loss + 5.0 * moved.square().sum() / len(held)
    gradients = torch.autograd.grad(loss, [*inputs.values(), new])
    kept.learn(session)
    got = dict(method.network_.backbone.named_parameters())
    for (name, value), gradient in zip(inputs.items(), gradients, strict=False):
        assert torch.allclose(got[name], value.detach() - 0.05 * (gradient + 0.1 * value.detach()), atol=2e-6), name
    assert gradients[-1].abs().max() > 1e-3
    assert torch.allclose(method.vectors_[BASE:], unit(starts - 0.7 * gradients[-1]), atol=2e-5)
    images = torch.cat([held, shots])
    places, now = unit(seen(frozen, images)), unit(seen(method.network_, images))
    assert torch.allclose(method.vectors_[:BASE], calibrated(old, places, now - places, 0.5), atol=1e-5)


def test_all_but_the_last_block_stays() -> None:
    method = IDLVQ(steps=3, lr=0.05)
    learning(method, until=SESSIONS)
    before = tiny_network().classifier.state_dict()
    changed = {n for n, value in method.network_.state_dict().items() if not torch.equal(value, before[n])}
    assert changed
    assert all(name.startswith(f"backbone.trunk.blocks.{DEPTH - 1}.") for name in changed)


def test_without_a_rate_old_vectors_and_their_distances_stay_to_the_last_bit() -> None:
    method = IDLVQ(steps=3, lr=0.0)
    kept, sessions = learning(method)
    images = torch.from_numpy(tiny_benchmark()._dataset.test.images)
    vectors, before = method.vectors_, method.scores(PixelView(images))
    for session in sessions[1:]:
        kept.learn(session)
        assert torch.equal(method.vectors_[:BASE], vectors)
    assert torch.allclose(method.scores(PixelView(images))[:, :BASE], before, atol=1e-5)
    assert method.vectors_.shape == (BASE + WAY * SESSIONS, 16)  # one for every class


@pytest.mark.parametrize("width", [0.01, 0.125, 7.0])
def test_the_likeliest_class_is_that_of_the_nearest_vector(width: float) -> None:
    method = IDLVQ(steps=2, width=width)
    _, sessions = learning(method, until=1)
    view = sessions[1].view
    assert view is not None
    assert view.images is not None
    scores = method.scores(view)
    features = unit(seen(method.network_, view.images))
    likely = torch.stack([torch.exp(-(features - m).square().sum(1) / width) for m in method.vectors_], 1)
    nearest = torch.cdist(features, method.vectors_).argmin(1)
    assert torch.equal(scores.argmax(1), nearest)
    if width > 0.1:  # else some likelihoods are zero in single precision
        assert torch.allclose(scores.softmax(1), likely / likely.sum(1, keepdim=True), atol=1e-4)


def test_base_classes_answer_as_the_cosine_head_of_base_training() -> None:
    method = IDLVQ()
    learning(method)
    images = torch.from_numpy(tiny_benchmark()._dataset.test.images)
    head = tiny_network().classifier.head
    logits = head(seen(tiny_network().classifier, images))
    assert torch.allclose(method.scores(PixelView(images)).softmax(1), logits.softmax(1), atol=1e-5)
    assert head.scale == 16  # 2 / width


@pytest.mark.parametrize("exemplars", [1, 3])
def test_exemplars_are_the_images_nearest_to_the_vector(exemplars: int) -> None:
    method = IDLVQ(steps=2, exemplars=exemplars)
    kept, sessions = learning(method)
    for session in sessions[1:]:
        kept.learn(session)
        assert session.images is not None
        features = unit(seen(method.network_, session.images))
        for c in session.classes:
            rows = [row for row, label in enumerate(session.labels.tolist()) if label == c]
            wanted = sorted(rows, key=lambda row: float((features[row] - method.vectors_[c]).square().sum()))
            places = kept.places[kept._labels == c]
            assert places[:, 1].tolist() == wanted[:exemplars]
            assert (places[:, 0] == session.index).all()
    assert kept._labels.bincount().tolist() == [exemplars] * (BASE + WAY * SESSIONS)


def test_without_exemplars_nothing_is_kept() -> None:
    assert IDLVQ(exemplars=0).memory() is None
    kept, _ = learning(IDLVQ(exemplars=0, steps=2), until=SESSIONS)
    assert kept.most == 0


def test_copies_of_mixed_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"options\.idlvq\.augment makes copies of single images"):
        make("idlvq", {"augment": {"turn": 0.5}})

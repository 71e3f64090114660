"""C-FSCIL's sessions: a twin in loops with one optimizer of torch's own, what each mode changes, and nudging."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, DIM, make_world
from tiny_benchmark import CPU, DEPTH

from fscil.backbones.extract import at_one_length
from fscil.core.errors import InputError
from fscil.data.episodes import ClassRows
from fscil.data.session import Session, View
from fscil.methods import make
from fscil.methods.c_fscil import CFSCIL, crowding, nudged, nudging_loss

WIDTH = 20
LAYER = {
    "embedding.weight": torch.randn(WIDTH, DIM, generator=torch.Generator().manual_seed(0)) / 10,
    "embedding.bias": torch.randn(WIDTH, generator=torch.Generator().manual_seed(1)) / 10,
}


def fresh(**options: Any) -> CFSCIL:
    method = make("c-fscil", {"width": 64, "meta_steps": 10, **options})
    assert isinstance(method, CFSCIL)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def worlds(extras: dict[str, torch.Tensor] | None = None) -> list[Session]:
    world, _ = make_world()
    return [dataclasses.replace(world[0], extras=extras or {}), *world[1:]]


def learned(sessions: int = 3, extras: dict[str, torch.Tensor] | None = None, **options: Any) -> CFSCIL:
    method, world = fresh(**options), worlds(extras)
    method.fit_base(world[0])
    for session in world[1:sessions]:
        method.fit_novel(session)
    return method


def cosine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum() / (a.norm() * b.norm())


class Released:
    """The sessions as the released code goes through them, in loops: one table of activations that is added to, one
    linear layer, and one optimizer from the first session to the last.
    """

    def __init__(self, mode: int, lr: float = 0.01) -> None:
        self.mode, self.table = mode, np.zeros((BASE + 6, DIM))
        self.layer = torch.nn.Linear(DIM, WIDTH)
        with torch.no_grad():
            self.layer.weight.copy_(LAYER["embedding.weight"])
            self.layer.bias.copy_(LAYER["embedding.bias"])
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=5e-4)

    def add(self, x: np.ndarray, labels: np.ndarray) -> None:
        for start in range(0, len(x), 128):
            batch, given = x[start : start + 128], labels[start : start + 128]
            for c in set(given.tolist()):
                self.table[c] += batch[given == c].mean(0)

    def session(self, x: np.ndarray, labels: np.ndarray, ways: int) -> torch.Tensor:
        self.add(x, labels)
        memory = torch.tensor(self.table[:ways], dtype=torch.float32)
        start = self.layer(memory).detach()
        targets = {1: start, 2: start.sign(), 3: self.nudged(start)}[self.mode]
        for _ in range({1: 0, 2: 10, 3: 50}[self.mode]):
            self.optimizer.zero_grad()
            vectors = self.layer(memory)
            loss = sum(-cosine(vectors[c].tanh(), targets[c].tanh()) for c in range(ways)) / ways
            loss.backward()  # type: ignore[union-attr]
            self.optimizer.step()
        return self.layer(memory).detach()

    def nudged(self, start: torch.Tensor) -> torch.Tensor:
        if self.mode < 3:
            return start
        moved = torch.nn.Parameter(start.clone())
        optimizer = torch.optim.SGD([moved], lr=0.1, momentum=0.9, nesterov=True)
        upper = torch.triu(torch.ones(len(start), len(start)), 1)
        for _ in range(100):
            optimizer.zero_grad()
            unit = F.normalize(moved.tanh(), dim=1)
            apart = unit @ unit.T * upper
            crowd = (torch.exp(4 * apart) + torch.exp(-4 * apart) - 2).sum() / upper.sum()
            near = sum(1 - cosine(moved[c].tanh(), start[c].tanh()) for c in range(len(start))) / len(start)
            (crowd + near).backward()
            optimizer.step()
        return moved.detach()


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_sessions_are_those_of_the_released_code(mode: int) -> None:
    """A rate at which ten steps matter, so that momentum from the session before, decay and sums all show."""
    method, world, twin = fresh(mode=mode, base_images=40, lr=0.3), worlds(LAYER), Released(mode, lr=0.3)
    for session in world:
        (method.fit_novel if session.index else method.fit_base)(session)
        assert session.view is not None
        x, labels = session.view.final.numpy(), session.labels.numpy()
        if not session.index:  # images of all classes in turn, as its sampler gives them; which ones is drawn
            drawn = ClassRows(session.labels, session.classes).draw(torch.arange(BASE), 40, method._generator(1, CPU))
            order = drawn.T.flatten().numpy()
            x, labels = x[order], labels[order]
        expected = twin.session(x, labels, session.classes.stop)
        assert torch.allclose(method.memory_, torch.tensor(twin.table[: session.classes.stop]).float(), atol=1e-4)
        assert torch.allclose(method.vectors_, expected, rtol=1e-3, atol=1e-3)
    assert torch.allclose(method.weight_, twin.layer.weight, atol=1e-4)


def test_a_base_row_is_the_sum_of_94_means() -> None:
    """60 classes with 200 images each are 12,000, in batches of 128; where all images of a class are alike, its mean
    in every one of the 94 batches is that image.
    """
    labels = torch.arange(60).repeat_interleave(200)
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    base = Session(0, range(60), None, labels, View(x[labels]), extras={
        "embedding.weight": torch.eye(4), "embedding.bias": torch.zeros(4)
    })  # fmt: skip
    method = fresh(mode=1)
    method.fit_base(base)
    assert torch.allclose(method.memory_, 94 * x, rtol=1e-4)
    assert torch.allclose(method.vectors_, 94 * x, rtol=1e-4)


def test_no_image_is_counted_twice_in_a_sum_unless_there_are_too_few() -> None:
    method, session = fresh(mode=1, base_images=40), worlds(LAYER)[0]
    assert session.view is not None
    marks = torch.arange(40).repeat(BASE)  # image k of every class adds to entry k of its row
    one_hot = F.one_hot(marks, 40).float()
    layer = {"embedding.weight": torch.eye(40), "embedding.bias": torch.zeros(40)}
    method.fit_base(dataclasses.replace(session, view=View(one_hot), extras=layer))
    # Batches of 128 hold 16, 16 and 8 images of each of the 8 classes.
    counted = method.memory_.mul(16).round().int().sort(1).values
    assert torch.equal(counted, torch.tensor([[1] * 32 + [2] * 8] * BASE, dtype=torch.int32))


def test_mode_one_leaves_the_layer_of_base_training_as_it_is() -> None:
    method = learned(4, LAYER, mode=1)
    assert torch.equal(method.weight_, LAYER["embedding.weight"])
    assert torch.equal(method.bias_, LAYER["embedding.bias"])


@pytest.mark.parametrize("mode", [2, 3])
def test_other_modes_change_the_layer_and_leave_the_memory(mode: int) -> None:
    plain, method = learned(3, LAYER, mode=1), learned(3, LAYER, mode=mode)
    assert not torch.equal(method.weight_, LAYER["embedding.weight"])
    assert not torch.equal(method.bias_, LAYER["embedding.bias"])
    assert torch.equal(method.memory_, plain.memory_)
    assert not method.weight_.requires_grad
    assert set(method.state_dict()) == set(plain.state_dict())


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_class_vectors_are_the_layers_view_of_the_memory(mode: int) -> None:
    method = learned(3, mode=mode)
    assert method.vectors_.shape == (BASE + 4, 64)
    assert torch.equal(method.vectors_, F.linear(method.memory_, method.weight_, method.bias_))


@pytest.mark.parametrize("extras", [None, LAYER])
def test_with_means_base_and_new_classes_have_rows_of_one_kind(extras: dict[str, torch.Tensor] | None) -> None:
    """Of features as they are where the layer came with the network, else of features of one length."""
    method = learned(2, extras, base_rows="means")
    for session in worlds()[:2]:
        assert session.view is not None
        for c in session.classes:
            x = session.view.final[session.labels == c]
            mean = (x if extras else at_one_length(x)).mean(0)
            assert torch.allclose(method.memory_[c], mean, atol=1e-5)


def test_aligning_to_signs_brings_the_vectors_nearer_to_bipolar_ones() -> None:
    options = {"base_rows": "means", "lr": 0.5}
    plain, aligned = learned(2, LAYER, mode=1, **options), learned(2, LAYER, mode=2, **options)

    def bipolar(method: CFSCIL) -> float:
        return float(F.cosine_similarity(method.vectors_.tanh(), method.vectors_.sign(), dim=1).mean())

    assert bipolar(aligned) > bipolar(plain)


def test_scores_are_absolute_cosines_by_hand() -> None:
    """tanh makes (0, 9) and (-9, 0) unit vectors nearly; the query is (9, 0), mapped by the identity."""
    method = fresh()
    method.one_length_, method.weight_, method.bias_ = False, torch.eye(2), torch.zeros(2)
    method.vectors_ = torch.tensor([[0.0, 9.0], [-9.0, 0.0], [9.0, 9.0]])
    got = method.scores(View(torch.tensor([[9.0, 0.0]])))
    assert got.tolist()[0] == pytest.approx([0.0, 1.0, math.sqrt(0.5)], abs=1e-5)


def test_scores_of_features_as_they_are_or_of_one_length() -> None:
    view = View(torch.randn(5, DIM, generator=torch.Generator().manual_seed(2)))
    double = View(2 * view.final)
    own, without = learned(2, LAYER), learned(2)
    assert torch.allclose(without.scores(view), without.scores(double), atol=1e-5)
    assert not torch.allclose(own.scores(view), own.scores(double), atol=1e-3)


def test_crowding_is_nought_for_orthogonal_vectors_and_even() -> None:
    assert float(crowding(torch.eye(4))) == pytest.approx(0.0, abs=1e-6)
    pair = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    flipped = pair * torch.tensor([[1.0], [-1.0]])
    angle = math.sqrt(0.5)
    expected = math.exp(4 * angle) + math.exp(-4 * angle) - 2
    assert float(crowding(pair)) == pytest.approx(expected, rel=1e-5)
    assert float(crowding(flipped)) == pytest.approx(expected, rel=1e-5)
    assert float(crowding(pair[:1])) == 0.0  # one class has no neighbour


def test_a_hundred_nudges_lower_the_loss_and_move_vectors_apart() -> None:
    start = torch.randn(12, 16, generator=torch.Generator().manual_seed(0)) + 0.5
    moved = nudged(start, 100, 0.1)
    assert float(nudging_loss(moved, start)) < float(nudging_loss(start, start))
    assert float(crowding(moved)) < float(crowding(start))


def test_episodes_teach_the_layer_to_tell_base_classes_apart() -> None:
    _, exams = make_world(spread=0.8)
    view, labels = exams[0]
    accuracies = []
    for steps in (0, 150):
        method, (world, _) = fresh(meta_steps=steps, mode=1), make_world(spread=0.8)
        method.fit_base(world[0])
        accuracies.append(float((method.scores(view).argmax(1) == labels).float().mean()))
    assert accuracies[1] > accuracies[0]


def test_a_layer_that_came_with_the_network_is_not_learned_again() -> None:
    assert torch.equal(learned(2, LAYER, meta_steps=0).weight_, learned(2, LAYER, meta_steps=20).weight_)


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"mode": 4}, {"width": 0}, {"shot": 0}, {"meta_steps": -1}, {"base_rows": "sum"}, {"base_images": 0}):
        with pytest.raises(InputError, match=r"options\.c-fscil"):
            fresh(**bad)

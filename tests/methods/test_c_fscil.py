"""C-FSCIL: what each mode changes, the class vectors, and nudging them apart."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, DIM, make_world
from tiny_benchmark import CPU, DEPTH

from fscil.backbones.extract import at_one_length
from fscil.core.errors import InputError
from fscil.data.session import View
from fscil.methods import make
from fscil.methods.c_fscil import CFSCIL, crowding, nudged, nudging_loss

LAYER = {
    "fc.weight": torch.randn(20, DIM, generator=torch.Generator().manual_seed(0)),
    "fc.bias": torch.randn(20, generator=torch.Generator().manual_seed(1)),
}


def fresh(**options: Any) -> CFSCIL:
    method = make("c-fscil", {"width": 64, "meta_steps": 10, **options})
    assert isinstance(method, CFSCIL)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def learned(sessions: int = 3, extras: dict[str, torch.Tensor] | None = None, **options: Any) -> CFSCIL:
    method, (world, _) = fresh(**options), make_world()
    method.fit_base(dataclasses.replace(world[0], extras=extras or {}))
    for session in world[1:sessions]:
        method.fit_novel(session)
    return method


def test_mode_one_leaves_the_layer_of_base_training_as_it_is() -> None:
    method = learned(4, LAYER, meta_steps=0, mode=1)
    assert torch.equal(method.weight_, LAYER["fc.weight"])
    assert torch.equal(method.bias_, LAYER["fc.bias"])


@pytest.mark.parametrize("mode", [2, 3])
def test_other_modes_change_the_layer_and_leave_the_memory(mode: int) -> None:
    plain, method = learned(3, LAYER, meta_steps=0, mode=1), learned(3, LAYER, meta_steps=0, mode=mode)
    assert not torch.equal(method.weight_, LAYER["fc.weight"])
    assert torch.equal(method.memory_, plain.memory_)
    assert not method.weight_.requires_grad
    assert set(method.state_dict()) == set(plain.state_dict())


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_class_vectors_are_the_layers_view_of_the_memory(mode: int) -> None:
    method = learned(3, mode=mode)
    assert method.vectors_.shape == (BASE + 4, 64)
    assert torch.equal(method.vectors_, F.linear(method.memory_, method.weight_, method.bias_))


def test_the_memory_is_one_mean_per_class_for_base_and_new_classes_alike() -> None:
    method, (world, _) = learned(2), make_world()
    for session in world[:2]:
        assert session.view is not None
        for c in session.classes:
            mean = at_one_length(session.view.final[session.labels == c]).mean(0)
            assert torch.allclose(method.memory_[c], mean, atol=1e-5)


def test_aligning_to_signs_brings_the_vectors_nearer_to_bipolar_ones() -> None:
    plain, aligned = learned(2, LAYER, meta_steps=0, mode=1), learned(2, LAYER, meta_steps=0, mode=2, lr=0.5)

    def bipolar(method: CFSCIL) -> float:
        return float(F.cosine_similarity(method.vectors_.tanh(), method.vectors_.sign(), dim=1).mean())

    assert bipolar(aligned) > bipolar(plain)


def test_scores_are_absolute_cosines_by_hand() -> None:
    """tanh makes (0, 9) and (-9, 0) unit vectors nearly; the query is (9, 0), mapped by the identity."""
    method = fresh()
    method.weight_, method.bias_ = torch.eye(2), torch.zeros(2)
    method.vectors_ = torch.tensor([[0.0, 9.0], [-9.0, 0.0], [9.0, 9.0]])
    got = method.scores(View(torch.tensor([[9.0, 0.0]])))
    assert got.tolist()[0] == pytest.approx([0.0, 1.0, math.sqrt(0.5)], abs=1e-5)


def test_crowding_is_nought_for_orthogonal_vectors_and_even() -> None:
    assert float(crowding(torch.eye(4))) == pytest.approx(0.0, abs=1e-6)
    pair = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    flipped = pair * torch.tensor([[1.0], [-1.0]])
    cosine = math.sqrt(0.5)
    expected = math.exp(4 * cosine) + math.exp(-4 * cosine) - 2
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


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"mode": 4}, {"width": 0}, {"shot": 0}, {"meta_steps": -1}):
        with pytest.raises(InputError, match=r"options\.c-fscil"):
            fresh(**bad)

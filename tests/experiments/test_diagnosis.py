"""The diagnosis of a network, on made-up features whose answer is known."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from fscil.data.session import Session, View
from fscil.experiments.ablate.diagnosis import diagnose, linear_cka
from fscil.methods import YourSelf

BASE, NOVEL, DIM, EACH = 6, 2, 16, 4
AXES = 3.0 * torch.eye(BASE + NOVEL, DIM)  # the classes, at right angles


def sessions(layer: torch.Tensor, common: float = 0.0, head: torch.Tensor | None = None) -> list[Session]:
    """Every image of class c has the final feature AXES[c], moved along the last axis, and layer[c] in block 3."""
    found = []
    for index, classes in enumerate((range(BASE), range(BASE, BASE + NOVEL))):
        labels = torch.arange(classes.start, classes.stop).repeat_interleave(EACH)
        moved = torch.zeros(DIM).index_fill(0, torch.tensor(DIM - 1), common)
        view = View(AXES[labels] + moved, {3: layer[labels]})
        found.append(Session(index, classes, None, labels, view, None if index else head))
    return found


def test_a_layer_that_is_the_final_features_says_so() -> None:
    head = 5 * AXES[:BASE]
    method = YourSelf(prototypes="head", own_relations=False, scale=4.0)
    found = diagnose(sessions(AXES, head=head), method, (3,))
    assert list(found) == [0, 3]
    assert found[0]["head"] == pytest.approx(1)
    assert found[3]["cosine"] == pytest.approx(1)
    assert found[3]["cka"] == pytest.approx(1)
    # One class in six along each axis: the mean is 3/6 on six axes.
    assert found[0]["common"] == pytest.approx(100 * math.sqrt(BASE) / BASE)
    right = math.exp(4) / (math.exp(4) + BASE + NOVEL - 1)
    others = (1 - right) / (BASE + NOVEL - 1)
    entropy = -right * math.log(right) - (BASE + NOVEL - 1) * others * math.log(others)
    assert found[3]["entropy"] == pytest.approx(100 * entropy / math.log(BASE + NOVEL), rel=1e-3)
    assert (found[3]["wrong"], found[3]["novel"]) == (0, 0)


def test_a_layer_that_takes_base_classes_for_new_ones() -> None:
    """Two of six base classes look in the layer as the new ones do at the end, one as another base class."""
    layer = AXES.clone()
    layer[0], layer[1], layer[2] = AXES[BASE], AXES[BASE + 1], AXES[3]
    found = diagnose(sessions(layer), YourSelf(own_relations=False), (3,))
    assert found[3]["novel"] == pytest.approx(100 * 2 / 6)
    assert found[3]["wrong"] == pytest.approx(100 * 3 / 6)
    assert found[3]["cosine"] == pytest.approx(3 / 6)
    assert (found[0]["wrong"], found[0]["novel"]) == (0, 0)
    assert "head" not in found[0]  # there is no classifier


def test_by_its_own_class_means_a_turned_layer_is_right() -> None:
    turned = AXES.roll(1, 0)
    apart = diagnose(sessions(turned), YourSelf(own_relations=True), (3,))
    shared = diagnose(sessions(turned), YourSelf(own_relations=False), (3,))
    assert apart[3]["wrong"] == 0
    assert shared[3]["wrong"] == 100
    assert apart[3]["cka"] == pytest.approx(shared[3]["cka"])


def test_a_common_mean_is_measured_as_the_network_gives_it_and_taken_off_by_centring() -> None:
    far = sessions(AXES, common=30.0)
    found = diagnose(far, YourSelf(centring=0.0), (3,))
    mean, length = math.hypot(30, 3 / math.sqrt(BASE)), math.hypot(30, 3)
    assert found[0]["common"] == pytest.approx(100 * mean / length, rel=1e-5)
    centred = diagnose(far, YourSelf(centring=1.0), (3,))
    assert centred[0]["common"] == pytest.approx(found[0]["common"])
    assert found[0]["entropy"] > 99
    assert centred[0]["entropy"] < 50


def test_a_classifier_at_right_angles_to_the_class_means() -> None:
    head = 3.0 * torch.eye(DIM)[BASE + NOVEL : 2 * BASE + NOVEL]
    found = diagnose(sessions(AXES, head=head), YourSelf(prototypes="head", own_relations=False), (3,))
    assert found[0]["head"] == pytest.approx(0, abs=1e-6)
    assert found[0]["wrong"] > 80  # no prototype of a base class is nearer than any other


def test_linear_cka_against_its_definition_by_gram_matrices() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(7, 9, generator=generator, dtype=torch.float64) + 3
    centre = torch.eye(50, dtype=torch.float64) - 1 / 50
    k, other = (centre @ z @ z.T @ centre for z in (x, y))
    expected = (k * other).sum() / (k.norm() * other.norm())
    assert linear_cka(x, y) == pytest.approx(float(expected))
    turned, _ = torch.linalg.qr(torch.randn(7, 7, generator=generator, dtype=torch.float64))
    assert linear_cka(x, 4 * x @ turned - 1) == pytest.approx(1)
    alone = F.one_hot(torch.arange(50) % 2, 2).double()
    assert linear_cka(alone, F.one_hot(torch.arange(50) // 2 % 2, 2).double()) < 0.01

"""C-FSCIL's base training: the sharpened attention by hand, and episodes inside a batch."""

from __future__ import annotations

import math

import pytest
import torch
from small_networks import batch, classifier, objective
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives.c_fscil import episode_losses, softabs


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_softabs_is_even_and_near_nought_at_nought() -> None:
    cosines = torch.linspace(-1, 1, 21)
    assert torch.allclose(softabs(cosines), softabs(-cosines))
    assert float(softabs(torch.zeros(()))) == pytest.approx(2 * sigmoid(-5), abs=1e-6)
    assert float(softabs(torch.zeros(()))) == pytest.approx(0.01339, abs=1e-5)


def test_loss_of_an_episode_by_hand() -> None:
    """One query that equals prototype 0 and is orthogonal to prototype 1."""
    near, far = sigmoid(5) + sigmoid(-15), 2 * sigmoid(-5)
    weight = near / (near + far)
    got = episode_losses(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    assert float(got) == pytest.approx(-2 * math.log(weight), rel=1e-4)  # the other weight is 1 - this one


def test_a_class_without_support_gets_no_attention() -> None:
    query, prototypes = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    got = episode_losses(query, prototypes, torch.tensor([[1.0, 0.0]]), present=torch.tensor([1.0, 0.0]))
    assert float(got) == pytest.approx(0.0, abs=1e-4)


def with_labels(labels: list[int]) -> Mixed:
    given = torch.tensor(labels)
    return Mixed(batch(len(labels)).images, given, given, torch.ones(len(labels)))


def test_queries_of_classes_without_support_say_nothing() -> None:
    part = objective("c-fscil", width=8)
    embedded = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    given = with_labels([0, 0, 1, 1, 0, 1, 3, 3])  # the first half makes the prototypes: none of class 3
    loss = part._episode(embedded, given)
    assert loss > 0
    embedded[6:] += 3
    assert torch.equal(part._episode(embedded, given), loss)
    embedded[5] += 3
    assert not torch.equal(part._episode(embedded, given), loss)


def test_supports_have_no_gradient() -> None:
    part = objective("c-fscil", width=8)
    embedded = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    part._episode(embedded, batch(8)).backward()
    assert embedded.grad is not None
    assert (embedded.grad[:4] == 0).all()
    assert (embedded.grad[4:] != 0).any(1).all()


def gradients(part: torch.nn.Module, progress: float) -> tuple[Tensor, Tensor]:
    network = classifier()
    loss, _ = part(network, [batch()], torch.tensor(progress))
    loss.backward()
    assert isinstance(network.head.weight, Tensor)
    return network.head.weight.grad.abs().sum(), part.fc.weight.grad.abs().sum()  # type: ignore[union-attr]


def test_first_cross_entropy_then_episodes() -> None:
    plain, _ = objective("cross_entropy")(classifier(), [batch()], torch.zeros(()))
    loss, _ = objective("c-fscil")(classifier(), [batch()], torch.tensor(0.3))
    assert loss.item() == pytest.approx(plain.item(), rel=1e-6)
    head, layer = gradients(objective("c-fscil"), 0.3)
    assert head > 0
    assert layer == 0
    head, layer = gradients(objective("c-fscil", keep=0.0), 0.7)
    assert head == 0
    assert layer > 0
    head, layer = gradients(objective("c-fscil"), 0.7)
    assert head > 0
    assert layer > 0


def test_mixed_images_count_for_both_their_classes() -> None:
    part = objective("c-fscil", width=8)
    embedded = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    whole = batch(8)
    mixed = Mixed(whole.images, whole.labels, whole.labels.flip(0), torch.full((8,), 0.7))
    assert torch.isfinite(part._episode(embedded, mixed))
    assert not torch.equal(part._episode(embedded, mixed), part._episode(embedded, whole))


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"width": 0}, {"start": 1.0}, {"keep": -1.0}, {"weight": 0.0}):
        with pytest.raises(InputError, match=r"train\.objective_options\.\w+ must be"):
            objective("c-fscil", **bad)

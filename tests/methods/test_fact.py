"""FACT: the vote of virtual prototypes, by hand, and what must not change."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from feature_worlds import BASE, DIM, make_world
from tiny_benchmark import CPU, DEPTH

from fscil.core.errors import InputError
from fscil.data.session import View
from fscil.methods import make
from fscil.methods.fact import FACT


def fresh(**options: Any) -> FACT:
    method = make("fact", {"steps": 5, "virtual": 6, **options})
    assert isinstance(method, FACT)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def learned(sessions: int = 2, extras: dict[str, torch.Tensor] | None = None, **options: Any) -> FACT:
    method, (world, _) = fresh(**options), make_world()
    method.fit_base(dataclasses.replace(world[0], extras=extras or {}))
    for session in world[1:sessions]:
        method.fit_novel(session)
    return method


def test_virtual_prototypes_of_base_training_are_taken_made_unit_and_kept() -> None:
    trained = 3 * torch.randn(5, DIM, generator=torch.Generator().manual_seed(0))
    base, later = learned(1, {"virtual": trained}), learned(4, {"virtual": trained})
    assert torch.allclose(base.virtual_.norm(dim=1), torch.ones(5))
    assert torch.allclose(base.virtual_ * trained.norm(dim=1, keepdim=True), trained, atol=1e-5)
    assert torch.equal(base.virtual_, later.virtual_)


def test_probabilities_by_hand() -> None:
    """Two classes and two virtual prototypes in the plane; the query is (1, 0)."""
    method = fresh(eta=0.3, scale=2.0, top=1)
    method.prototypes_, method.base_classes_ = torch.tensor([[0.6, 0.8], [0.0, 1.0]]), 1
    method.virtual_ = torch.tensor([[0.8, 0.6], [-1.0, 0.0]])
    # nearness (0.8, -1); the nearest alone votes: 0.8 * (0.8 * 0.6 + 0.6 * 0.8, 0.6) = (0.768, 0.48)
    vote = 1 / (1 + math.exp(0.48 - 0.768))
    means = 1 / (1 + math.exp(2 * (0.0 - 0.6)))
    expected = 0.3 * vote + 0.7 * means
    got = method.scores(View(torch.tensor([[5.0, 0.0]])))
    assert got.tolist()[0] == pytest.approx([expected, 1 - expected], abs=1e-6)


def test_the_official_normalisation_runs_over_classes() -> None:
    method = fresh(normalise="feature", top=2)
    method.prototypes_, method.virtual_ = torch.tensor([[0.6, 0.8], [0.8, 0.6]]), torch.tensor([[1.0, 0.0]])
    # first feature over the classes: (0.6, 0.8), of length 1 already
    assert method._vote(torch.tensor([[1.0, 0.0]])).tolist()[0] == pytest.approx([0.6, 0.8])


def test_the_official_vote_against_a_slow_twin() -> None:
    """Number by number as released: class vectors keep their lengths, each feature is made unit over the classes."""
    generator = torch.Generator().manual_seed(0)
    virtual = torch.randn(7, DIM, generator=generator)
    method, (world, exams) = learned(3, {"virtual": virtual}, normalise="feature", top=4, eta=0.3), make_world()
    means = []
    for session in world[:3]:
        assert session.view is not None
        means += [session.view.final[session.labels == c].mean(0).double().numpy() for c in session.classes]
    rows = np.stack(means)
    unit_rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    kept = virtual.double().numpy() / np.linalg.norm(virtual.double().numpy(), axis=1, keepdims=True)
    over_classes = rows.T / np.linalg.norm(rows.T, axis=1, keepdims=True)
    view = exams[1][0]
    for x, got in zip(view.final.double().numpy(), method.scores(view), strict=True):
        x = x / np.linalg.norm(x)
        near = kept @ x
        near[np.argsort(near)[:-4]] = 0
        votes = [np.exp(part) / np.exp(part).sum() for part in (near @ kept @ over_classes, 16 * unit_rows @ x)]
        assert got.tolist() == pytest.approx((0.3 * votes[0] + 0.7 * votes[1]).tolist(), abs=1e-5)


def test_without_a_vote_it_is_the_cosine_to_means_of_features_as_they_are() -> None:
    method, (world, exams) = learned(3, eta=0.0), make_world()
    means = []
    for session in world[:3]:
        assert session.view is not None
        means += [session.view.final[session.labels == c].mean(0) for c in session.classes]
    for view, _ in exams:
        expected = torch.nn.functional.cosine_similarity(view.final[:, None], torch.stack(means)[None], dim=2)
        assert torch.allclose(method.scores(view), expected, atol=1e-5)


def test_the_base_session_has_no_vote_and_old_cosines_stay() -> None:
    _, exams = make_world()
    view = exams[0][0]
    base, voting = learned(1), learned(3)
    silent = learned(3, eta=0.0)
    assert torch.allclose(base.scores(view), silent.scores(view)[:, :BASE], atol=1e-6)
    assert torch.allclose(voting.scores(view).sum(1), torch.ones(len(view)), atol=1e-5)
    assert not torch.allclose(voting.scores(view), silent.scores(view))


def test_where_base_training_brought_none_virtual_prototypes_move_towards_mixtures() -> None:
    start, moved = learned(1, steps=0), learned(1, steps=60)
    assert start.virtual_.shape == (6, DIM)
    assert torch.allclose(start.virtual_ @ start.virtual_.T, torch.eye(6), atol=1e-5)  # orthogonal at first
    world, _ = make_world()
    assert world[0].view is not None
    x, labels = torch.nn.functional.normalize(world[0].view.final, dim=1), world[0].labels
    pairs = [(i, j) for i in range(0, 320, 7) for j in range(3, 320, 11) if labels[i] != labels[j]]
    mixed = torch.nn.functional.normalize(torch.stack([x[i] + x[j] for i, j in pairs]), dim=1)
    nearest = [float((mixed @ m.virtual_.T).amax(1).mean()) for m in (start, moved)]
    assert nearest[1] > nearest[0]


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"eta": 1.5}, {"normalise": "rows"}, {"top": 0}, {"virtual": 0}, {"alpha": 0.0}, {"steps": -1}):
        with pytest.raises(InputError, match=r"options\.fact"):
            fresh(**bad)

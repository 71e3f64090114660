"""ALICE's classifier: which base images stand for their class, by hand, and cosines to the means."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, make_world

from fscil.core.errors import InputError
from fscil.data.session import View
from fscil.methods import make
from fscil.methods.alice import ALICE, few_nearest


def learned(sessions: list[Any], **options: Any) -> ALICE:
    method = make("alice", options)
    assert isinstance(method, ALICE)
    method.start(seed=0, depth=0, device=torch.device("cpu"))
    for session in sessions:
        (method.fit_base if session.index == 0 else method.fit_novel)(session)
    return method


def test_the_nearest_and_what_the_authors_pass_finds() -> None:
    distances = torch.tensor([0.5, 0.9, 0.2, 0.3, 0.1])
    assert sorted(few_nearest(distances, 2, in_order=False).tolist()) == [2, 4]
    # Places hold images 0 and 1. Image 2 (0.2) takes place 0; image 3 (0.3) is not below 0.2, takes place 1; image 4
    # (0.1) takes place 0, though place 1 is the farther: images 4 and 3 remain.
    assert few_nearest(distances, 2, in_order=True).tolist() == [4, 3]
    assert sorted(few_nearest(distances, 9, in_order=True).tolist()) == [0, 1, 2, 3, 4]
    assert few_nearest(torch.tensor([0.5, 0.2, 0.5]), 2, in_order=True).tolist() == [0, 1]  # as near is not nearer


def test_the_mean_of_a_base_class_against_a_slow_twin() -> None:
    sessions, _ = make_world()
    method = learned(sessions)
    view = sessions[0].view
    assert view is not None
    for c in range(BASE):
        members = [x for x, label in zip(view.final, sessions[0].labels, strict=True) if label == c]
        middle = torch.stack(members).mean(0)
        ranked = sorted(members, key=lambda x: -float(F.cosine_similarity(x, middle, dim=0)))
        assert torch.allclose(method.means_[c], F.normalize(torch.stack(ranked[:5]).mean(0), dim=0), atol=1e-5)


def test_all_images_are_the_variant_and_the_option() -> None:
    sessions, exams = make_world()
    view = exams[1][0]
    everything = learned(sessions, balanced=0)
    assert torch.equal(learned(sessions).variants()["means of all base images"](view), everything.scores(view))
    assert torch.equal(learned(sessions).means_[BASE:], everything.means_[BASE:])  # new classes are as they are
    authors = learned(sessions, selection="authors").scores(view)
    assert not torch.equal(authors, learned(sessions).scores(view))
    assert (authors.argmax(1) == exams[1][1]).float().mean() > 0.9


def test_the_length_of_a_feature_does_not_matter() -> None:
    sessions, exams = make_world()
    method = learned(sessions)
    view = exams[0][0]
    assert torch.allclose(method.scores(View(3.0 * view.final)), method.scores(view), atol=1e-6)


def test_wrong_options_are_named() -> None:
    for options, words in (({"selection": "best"}, "nearest or authors"), ({"balanced": -1}, "alice.balanced")):
        with pytest.raises(InputError, match=words):
            learned([], **options)

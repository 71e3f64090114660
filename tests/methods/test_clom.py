"""CLOM: two tables of class means."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import DIM, make_world
from tiny_benchmark import CPU, DEPTH

from fscil.core.errors import InputError
from fscil.data import Session
from fscil.methods.clom import CLOM
from fscil.objectives.clom import ExtraBranch


def started(**options: object) -> CLOM:
    method = CLOM(**{"steps": 20, **options})  # type: ignore[arg-type]
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def with_branch(session: Session) -> tuple[Session, ExtraBranch]:
    torch.manual_seed(0)
    branch = ExtraBranch(DIM, 24)
    branch(torch.randn(64, DIM))  # running statistics that are not the start's
    extras = {f"branch.{name}": value for name, value in branch.state_dict().items()}
    return dataclasses.replace(session, extras={**extras, "head.weight": torch.zeros(8, 24)}), branch.eval()


@torch.no_grad()
def test_scores_are_two_cosines_added_up() -> None:
    sessions, exams = make_world()
    base, branch = with_branch(sessions[0])
    method = started()
    method.fit_base(base)
    method.fit_novel(sessions[1])
    view, expected = exams[0][0], torch.zeros(len(exams[0][1]), 10)
    for session in (base, sessions[1]):
        assert session.view is not None
        for of in (lambda x: x, branch):
            shots, asked = of(session.view.final), F.normalize(of(view.final), dim=-1)
            for c in session.classes:
                expected[:, c] += asked @ F.normalize(shots[session.labels == c].mean(0), dim=0)
    assert torch.allclose(method.scores(view), expected, atol=1e-5)
    assert torch.equal(method.scores(view), sum(part(view) for part in method.variants().values()))


def test_without_the_branch_it_is_class_means_of_features_as_they_are() -> None:
    sessions, exams = make_world()
    method, means = started(weight_extra=0.0), []
    for session in sessions:
        (method.fit_novel if session.index else method.fit_base)(session)
        assert session.view is not None
        means += [F.normalize(session.view.final[session.labels == c].mean(0), dim=0) for c in session.classes]
    view = exams[0][0]
    expected = F.normalize(view.final, dim=-1) @ torch.stack(means).T
    assert torch.allclose(method.scores(view), expected, atol=1e-6)
    assert torch.allclose(method.variants()["features alone"](view), expected, atol=1e-6)


def test_a_session_leaves_the_scores_of_old_classes_alone() -> None:
    sessions, exams = make_world()
    method = started()
    method.fit_base(sessions[0])
    before = method.scores(exams[0][0])
    method.fit_novel(sessions[1])
    assert torch.equal(method.scores(exams[0][0])[:, :8], before)


def test_a_branch_learned_on_frozen_features_tells_base_classes_apart_better() -> None:
    sessions, exams = make_world(spread=1.2)
    view, labels = exams[0]
    method = started(steps=200)
    method.fit_base(sessions[0])
    right = {name: (part(view).argmax(1) == labels).float().mean() for name, part in method.variants().items()}
    assert right["branch alone"] >= right["features alone"]
    assert method.branch_["linear.weight"].shape == (256, DIM)


def test_learning_leaves_no_trace_in_the_random_numbers_of_others() -> None:
    sessions, _ = make_world()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    started().fit_base(sessions[0])
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("options", [{"width": 0}, {"steps": 0}, {"batch": 1}, {"lr": 0.0}])
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"options\.clom\.\w+ must be"):
        started(**options)

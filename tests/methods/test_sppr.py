"""SPPR: a table, refined and compared."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from feature_worlds import BASE, DIM, WAY, make_world
from tiny_benchmark import CPU, DEPTH

from fscil.core.errors import InputError
from fscil.data import Session
from fscil.methods.sppr import SPPR
from fscil.objectives.sppr import Refinement


def started(**options: object) -> SPPR:
    method = SPPR(**{"steps": 5, **options})  # type: ignore[arg-type]
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def with_table(session: Session) -> tuple[Session, Refinement]:
    """The base session as a network trained with the objective would bring it."""
    torch.manual_seed(0)
    part = Refinement(BASE, DIM)
    torch.nn.init.normal_(part.table)
    extras = {f"refinement.{name}": value for name, value in part.state_dict().items()}
    return dataclasses.replace(session, extras=extras), part.eval().requires_grad_(False)


def test_sessions_by_hand() -> None:
    sessions, exams = make_world()
    base, part = with_table(sessions[0])
    method, view = started(), exams[0][0]
    method.fit_base(base)
    assert torch.equal(method.scores(view), part.relate(view.final, part.table))  # session 0: the table as it is
    means = []
    for session in sessions[1:]:
        method.fit_novel(session)
        assert session.view is not None
        means += [session.view.final[session.labels == c].mean(0) for c in session.classes]
        rows = torch.cat([part.table, torch.stack(means)])
        expected = part.relate(view.final, part.refine(rows, part.table))  # always from the base table
        assert torch.allclose(method.scores(view), expected, atol=1e-5)
        assert len(method.refined_) == BASE + WAY * session.index


def test_sessions_change_no_parameter() -> None:
    sessions, _ = make_world()
    method = started()
    method.fit_base(sessions[0])
    before = {name: value.clone() for name, value in method.part_.items()}
    for session in sessions[1:]:
        method.fit_novel(session)
    assert all(torch.equal(value, before[name]) for name, value in method.part_.items())


def test_base_rows_can_stay_as_they_are() -> None:
    sessions, _ = make_world()
    method = started(refine_base=False)
    method.fit_base(sessions[0])
    for session in sessions[1:]:
        method.fit_novel(session)
        assert torch.equal(method.refined_[:BASE], method.part_["table"])
        assert not torch.equal(method.refined_[BASE:], method.novel_)


def test_it_can_refine_before_the_first_new_class() -> None:
    sessions, _ = make_world()
    base, part = with_table(sessions[0])
    method = started(refine_first=True)
    method.fit_base(base)
    assert torch.allclose(method.refined_, part.refine(part.table, part.table), atol=1e-6)


def test_learned_on_frozen_features_it_knows_the_base_classes() -> None:
    sessions, exams = make_world(spread=0.2)
    method = started(steps=60)
    method.fit_base(sessions[0])
    view, labels = exams[0]
    assert (method.scores(view).argmax(1) == labels).float().mean() > 0.9


def test_few_base_classes_pretend_as_far_as_they_can() -> None:
    sessions, _ = make_world()
    first = sessions[0]
    assert first.view is not None
    two = first.labels < 2
    method = started()
    method.fit_base(dataclasses.replace(first, classes=range(2), labels=first.labels[two], view=first.view[two]))
    assert method.refined_.shape == (2, DIM)
    one = first.labels < 1
    with pytest.raises(InputError, match="at least two"):
        method.fit_base(dataclasses.replace(first, classes=range(1), labels=first.labels[one], view=first.view[one]))


@pytest.mark.parametrize("options", [{"way": 0}, {"shot": 0}, {"steps": 0}, {"lr": 0.0}])
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"options\.sppr\.\w+ must be"):
        started(**options)

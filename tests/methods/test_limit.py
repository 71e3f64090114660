"""LIMIT: which rows a fake task replaces, and what chained queries do."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from feature_worlds import BASE, DIM, make_world
from tiny_benchmark import CPU, DEPTH
from written_out_attention import written_out

from fscil.backbones.extract import at_one_length
from fscil.core.errors import InputError
from fscil.data.episodes import ClassRows
from fscil.methods import make
from fscil.methods.limit import LIMIT
from fscil.objectives.prototype_attention import PrototypeAttention


def learned(sessions: int = 1, **options: Any) -> LIMIT:
    method = make("limit", {"steps": 5, **options})
    assert isinstance(method, LIMIT)
    method.start(seed=0, depth=DEPTH, device=CPU)
    world, _ = make_world()
    method.fit_base(world[0])
    for session in world[1:sessions]:
        method.fit_novel(session)
    return method


@pytest.mark.parametrize(("way", "replaced"), [(3, 3), (16, BASE // 2)])
def test_a_task_replaces_its_classes_by_single_images_and_no_other_row(way: int, replaced: int) -> None:
    method, base = learned(way=way, tasks=6), make_world()[0][0]
    assert base.view is not None
    final, means = at_one_length(base.view.final), at_one_length(method.prototypes_)
    rows = ClassRows(base.labels, base.classes)
    tasks = method._classifiers(final, means, rows, torch.Generator().manual_seed(0))
    sets = []
    for classifier in tasks:
        changed = (classifier != means).any(1)
        assert int(changed.sum()) == replaced
        for c in torch.nonzero(changed).flatten():
            assert (classifier[c] - final[base.labels == c]).abs().amax(1).min() < 1e-5  # one of the class's images
        sets.append(tuple(changed.tolist()))
    assert len(set(sets)) > 1  # every task draws its own


def test_the_official_tasks_are_all_alike() -> None:
    method, base = learned(own_classes=False, tasks=3), make_world()[0][0]
    assert base.view is not None
    rows = ClassRows(base.labels, base.classes)
    means = at_one_length(method.prototypes_)
    tasks = method._classifiers(at_one_length(base.view.final), means, rows, torch.Generator().manual_seed(0))
    assert len(tasks) == 3
    assert all(torch.equal(tasks[0], task) for task in tasks)


@pytest.mark.parametrize("chain", [False, True])
def test_chained_queries_make_equal_tasks_differ(chain: bool) -> None:
    method = learned(chain_queries=chain, zero_start=False)
    queries = at_one_length(torch.randn(4, DIM, generator=torch.Generator().manual_seed(3)))
    scores = method._task_scores(at_one_length(method.prototypes_).expand(3, -1, -1), queries)
    assert scores.shape == (3, 4, BASE)
    assert torch.allclose(scores[0], scores[1]) is not chain


def test_the_loss_sees_every_query_once_per_task(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def remember(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen["logits"], seen["labels"] = tuple(logits.shape), labels
        return logits.sum()

    monkeypatch.setattr("fscil.methods.limit.F.cross_entropy", remember)
    learned(steps=1, queries=10, tasks=3)
    assert seen["logits"] == (30, BASE)
    first = seen["labels"][:10]
    assert torch.equal(seen["labels"], first.repeat(3))
    assert first.max() < BASE


def test_a_session_adds_rows_only() -> None:
    before, after = learned(), learned(sessions=3)
    assert torch.equal(after.prototypes_[:BASE], before.prototypes_)
    assert len(after.prototypes_) == BASE + 4
    states = [m.state_dict()["attention_"] for m in (before, after)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_only_classes_seen_so_far_are_in_the_table() -> None:
    """So the scores after the base session cannot depend on rows of classes to come."""
    method, (_, exams) = learned(zero_start=False), make_world()
    before = method.scores(exams[0][0])
    method.fit_novel(make_world()[0][1])
    assert before.shape[1] == BASE
    assert not torch.allclose(method.scores(exams[0][0])[:, :BASE], before)  # but old logits may move later


def with_its_table(sessions: int, unseen: int = 5) -> tuple[LIMIT, torch.Tensor]:
    """A network whose second stage left a layer and a table with rows of classes to come."""
    torch.manual_seed(7)
    table = torch.randn(BASE + unseen, DIM)
    layer = {f"calibration.{name}": value for name, value in PrototypeAttention(DIM).state_dict().items()}
    method = make("limit", {"steps": 10**9})
    assert isinstance(method, LIMIT)
    method.start(seed=0, depth=DEPTH, device=CPU)
    world, _ = make_world()
    method.fit_base(dataclasses.replace(world[0], extras={**layer, "rows": table}))
    for session in world[1:sessions]:
        method.fit_novel(session)
    return method, table


@pytest.mark.parametrize(("sessions", "left"), [(1, 5), (2, 3), (3, 1), (4, 0)])
def test_rows_of_classes_to_come_are_tokens_until_these_come(sessions: int, left: int) -> None:
    method, table = with_its_table(sessions)
    world, exams = make_world()
    rows = []
    for session in world[:sessions]:
        assert session.view is not None
        rows += [session.view.final[session.labels == c].mean(0) for c in session.classes]
    seen = len(rows)
    rows += list(table[seen:])
    assert len(rows) == seen + left
    expected, _ = written_out(method.attention_, torch.stack(rows), exams[0][0].final[:6])
    assert torch.allclose(method.scores(exams[0][0])[:6], expected[:, :seen], atol=1e-5)


def test_with_its_table_it_can_be_stored_and_a_session_adds_rows_only() -> None:
    (before, _), (after, _), (_, exams) = with_its_table(1), with_its_table(3), make_world()
    assert torch.equal(after.prototypes_[:BASE], before.prototypes_)
    states = [m.state_dict()["attention_"] for m in (before, after)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    again = make("limit")
    again.load_state_dict(after.state_dict())
    assert torch.equal(again.scores(exams[0][0]), after.scores(exams[0][0]))


def test_the_query_may_keep_its_length() -> None:
    method, (_, exams) = learned(zero_start=False), make_world()
    view = exams[0][0]
    cosines = method.scores(view)
    method.unit_query = False
    assert torch.equal(method.scores(view).argmax(1), cosines.argmax(1))  # one factor per image
    assert not torch.allclose(method.scores(view), cosines)


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"tasks": 0}, {"queries": 0}, {"shot": 0}, {"lr": -1.0}):
        with pytest.raises(InputError, match=r"options\.limit"):
            learned(**bad)

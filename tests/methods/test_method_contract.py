"""What every method must hold to, whatever it does inside."""

from __future__ import annotations

import copy

import pytest
import torch
from feature_worlds import BASE, SESSIONS, WAY, make_world

from fscil.data.session import Session, View
from fscil.errors import InputError
from fscil.methods import REGISTRY, Method, make

QUICK = {"yourself": {"layers": (2, 3), "base_steps": 20, "novel_steps": 15, "batch_classes": 8}}
NAMES = sorted(REGISTRY)


def fresh(name: str) -> Method:
    method = make(name, QUICK.get(name))
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    return method


def learn(method: Method, sessions: list[Session]) -> None:
    for session in sessions:
        (method.fit_base if session.index == 0 else method.fit_novel)(session)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_finite_and_grow_with_the_classes(name: str) -> None:
    sessions, exams = make_world()
    method = fresh(name)
    for session in sessions:
        learn(method, [session])
        scores = method.scores(exams[0][0])
        assert scores.shape == (len(exams[0][1]), BASE + WAY * session.index)
        assert torch.isfinite(scores).all()


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_an_easy_world(name: str) -> None:
    sessions, exams = make_world(spread=0.2)
    method = fresh(name)
    learn(method, sessions)
    for view, labels in exams:
        assert (method.scores(view).argmax(1) == labels).float().mean() > 0.95


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_scores(name: str) -> None:
    _, exams = make_world()
    runs = []
    for _ in range(2):
        method = fresh(name)
        learn(method, make_world()[0])
        runs.append(method.scores(exams[1][0]))
    assert torch.equal(*runs)


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_left_alone(name: str) -> None:
    sessions, exams = make_world()
    before = copy.deepcopy([(s.labels, s.view, s.head) for s in sessions] + [exams[0][0]])
    method = fresh(name)
    learn(method, sessions)
    method.scores(exams[0][0])
    after = [(s.labels, s.view, s.head) for s in sessions] + [exams[0][0]]

    def flat(item: object) -> list[torch.Tensor]:
        if isinstance(item, torch.Tensor):
            return [item]
        if isinstance(item, View):
            return [item.final, *item.layers.values()]
        return [tensor for part in item if part is not None for tensor in flat(part)]  # type: ignore[attr-defined]

    assert all(torch.equal(a, b) for a, b in zip(flat(before), flat(after), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_saved_after_a_session_it_goes_on_to_the_same_scores(name: str) -> None:
    sessions, exams = make_world()
    whole = fresh(name)
    learn(whole, sessions)
    for cut in range(1, SESSIONS + 1):
        first = fresh(name)
        learn(first, sessions[:cut])
        state = copy.deepcopy(first.state_dict())
        second = make(name, QUICK.get(name))
        second.load_state_dict(state)
        learn(second, sessions[cut:])
        assert torch.equal(whole.scores(exams[0][0]), second.scores(exams[0][0]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shot", [1, 20])
def test_any_number_of_shots(name: str, shot: int) -> None:
    sessions, exams = make_world(shot=shot)
    method = fresh(name)
    learn(method, sessions)
    assert torch.isfinite(method.scores(exams[-1][0])).all()


@pytest.mark.parametrize("name", NAMES)
def test_unequal_shots(name: str) -> None:
    sessions, exams = make_world()
    first = sessions[1]
    keep = torch.tensor([0, 5, 6, 7, 8, 9])  # one shot of one class, five of the other
    assert first.view is not None
    sessions[1] = Session(1, first.classes, None, first.labels[keep], first.view[keep])
    method = fresh(name)
    learn(method, sessions)
    assert torch.isfinite(method.scores(exams[-1][0])).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_option_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"options.{name}.no_such_option"):
        make(name, {"no_such_option": 1})


def test_an_unknown_method_gets_the_nearest_name() -> None:
    with pytest.raises(InputError, match="did you mean 'yourself'"):
        make("yourslef")

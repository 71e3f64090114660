"""OrCo's sessions: who gets which target, what is seen again, and that the projector begins anew each time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import make_world
from test_method_contract import learn
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, SHOT, WAY, exam_view, prepared, tiny_benchmark
from torch import Tensor

from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.data import Session
from fscil.data.session import Memory
from fscil.methods import make
from fscil.methods.copies import Copies
from fscil.methods.orco import OrCo, project
from fscil.objectives.orco import Pulls, alignment_loss, far_apart, make_projector, perturbed

DIM, WIDTH, PLACES = 16, 12, 20
QUICK: dict[str, Any] = {"epochs": 3, "warmup_epochs": 2, "batch": 16, "base_steps": 5, "target_steps": 30}


def started(**options: Any) -> OrCo:
    method = make("orco", {**QUICK, **options})
    assert isinstance(method, OrCo)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def trained() -> dict[str, Tensor]:
    """What the two stages of base training leave."""
    torch.manual_seed(3)
    projector = {f"projector.{name}": value for name, value in make_projector(DIM, 24, WIDTH).state_dict().items()}
    targets = far_apart(PLACES, WIDTH, 100, torch.Generator().manual_seed(0))
    return {**projector, "targets": targets, "assigned": torch.tensor(True)}


def sessions_of(method: OrCo, **changes: Any) -> list[Session]:
    found = prepared(method, tiny_benchmark())
    return [dataclasses.replace(found[0], extras={**trained(), **changes}), *found[1:]]


def by_hand(extras: dict[str, Tensor], x: Tensor) -> Tensor:
    hidden = (x @ extras["projector.0.weight"].T + extras["projector.0.bias"]).clamp(min=0)
    return hidden @ extras["projector.2.weight"].T + extras["projector.2.bias"]


def test_it_begins_with_what_base_training_left() -> None:
    method = started()
    learn(method, sessions_of(method)[:1])
    view = exam_view(method, tiny_benchmark())
    extras = trained()
    expected = F.cosine_similarity(by_hand(extras, view.final)[:, None], extras["targets"][None, :BASE], dim=-1)
    assert torch.allclose(method.scores(view), expected, atol=1e-5)


def test_targets_are_never_shared_never_moved_and_never_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    method = started()
    sessions = sessions_of(method)
    learn(method, sessions[:1])
    before, all_of_them = method.targets_[:BASE].clone(), rows(method.targets_)
    for session in sessions[1:]:
        assert session.view is not None
        free, old = method.targets_[session.classes.start :].clone(), session.classes.start
        means = torch.stack(
            [by_hand(trained(), session.view.final[session.labels == c]).mean(0) for c in session.classes]
        )
        learn(method, [session])
        assert torch.equal(method.targets_[:old], before)  # in the order in which classes came
        assert rows(method.targets_) == all_of_them
        assert len(set(all_of_them)) == PLACES
        cosines = F.cosine_similarity(means[:, None], free[None], dim=-1)
        best = max(
            ((one, two) for one in range(len(free)) for two in range(len(free)) if one != two),
            key=lambda pair: float(cosines[0, pair[0]] + cosines[1, pair[1]]),
        )
        assert torch.equal(method.targets_[old : old + WAY], free[list(best)])
        before = method.targets_[: old + WAY].clone()


def rows(targets: Tensor) -> list[tuple[float, ...]]:
    return sorted(map(tuple, targets.tolist()))


def test_every_session_begins_with_the_projector_of_base_training(monkeypatch: pytest.MonkeyPatch) -> None:
    method, starts = started(), []
    descend = OrCo._descend

    def spied(self: OrCo, start: dict[str, Tensor], *rest: Any) -> dict[str, Tensor]:
        starts.append({name: value.clone() for name, value in start.items()})
        return descend(self, start, *rest)

    monkeypatch.setattr(OrCo, "_descend", spied)
    learn(method, sessions_of(method))
    assert len(starts) == SESSIONS
    for name, value in trained().items():
        if name.startswith("projector."):
            key = name.removeprefix("projector.")
            assert all(torch.equal(start[key], value) for start in starts)
            assert torch.equal(method.aligned_[key], value)
            assert not torch.equal(method.projector_[key], value)
    view = exam_view(method, tiny_benchmark())
    (scorer,) = method.variants().values()
    expected = F.cosine_similarity(
        by_hand(trained(), view.final)[:, None], method.targets_[None, : method.seen_], dim=-1
    )
    assert torch.allclose(scorer(view), expected, atol=1e-5)


def lessons(method: OrCo, session: Session) -> list[tuple[Tensor, Tensor, float]]:
    return list(method._lessons(session, torch.Generator().manual_seed(5)))


@pytest.mark.parametrize("exemplars", [5, 2])
def test_what_a_session_sees(exemplars: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its shots, and the first few images of every class before it, in whole epochs."""
    method, seen = started(exemplars=exemplars), []
    original = OrCo._lessons

    def spied(self: OrCo, session: Session, generator: torch.Generator) -> Iterator[Any]:
        assert session.memory is not None
        assert session.images is not None
        seen.append((torch.cat([session.images, session.memory.images]), [*session.labels, *session.memory.labels]))
        yield from original(self, session, generator)

    monkeypatch.setattr(OrCo, "_lessons", spied)
    sessions = sessions_of(method)
    learn(method, sessions)
    for index, (images, labels) in enumerate(seen, 1):
        expected = []
        for session in [sessions[index], *sessions[:index]]:
            assert session.images is not None
            for c in session.classes:
                members = [i for i in range(len(session)) if session.labels[i] == c]
                members = members if session.index == index else members[:exemplars]
                expected += [(int(c), session.images[i].numpy().tobytes()) for i in members]
        got = [(int(c), image.numpy().tobytes()) for image, c in zip(images, labels, strict=True)]
        assert sorted(got) == sorted(expected)
        assert len(got) == WAY * SHOT + exemplars * (BASE + WAY * (index - 1))


def test_lessons_are_whole_epochs_in_random_order_at_the_rates_of_their_epoch() -> None:
    method = started(batch=4)
    session = sessions_of(method)[1]
    shown = lessons(method, session)
    assert [len(labels) for _, labels, _ in shown] == [4, 4, 2] * 3  # the rest of an epoch is a batch too
    assert [pair.shape for pair, _, _ in shown[:3]] == [(2, 4, DIM), (2, 4, DIM), (2, 2, DIM)]
    assert [rate for _, _, rate in shown] == [method._rate(epoch) for epoch in range(3) for _ in range(3)]
    orders = [torch.cat([labels for _, labels, _ in shown[3 * e : 3 * e + 3]]).tolist() for e in range(3)]
    assert all(sorted(order) == sorted(session.labels.tolist()) for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_views_are_new_in_every_epoch_or_come_from_a_few_copies() -> None:
    changed = {"augment": AugmentConfig(noise=0.3), "batch": 10}
    session = sessions_of(started())[1]
    fresh = [pair for pair, _, _ in lessons(started(**changed), session)]
    assert len({x for pair in fresh for x in rows(pair.flatten(0, 1))}) == 3 * 2 * WAY * SHOT
    few = started(copies=3, epochs=12, **changed)
    pairs = [pair for pair, _, _ in lessons(few, session)]
    assert len({x for pair in pairs for x in rows(pair.flatten(0, 1))}) == 3 * WAY * SHOT
    for pair in pairs:
        assert not (pair[0] == pair[1]).all(1).any()  # two different copies
    again = [pair for pair, _, _ in lessons(started(copies=3, epochs=12, **changed), session)]
    assert all(torch.equal(one, two) for one, two in zip(pairs, again, strict=True))
    later = [pair for pair, _, _ in lessons(few, dataclasses.replace(session, index=2))]
    assert not torch.equal(pairs[0], later[0])


def test_a_pair_belongs_to_its_label() -> None:
    """Without any change both views are the image itself."""
    for copies in (0, 2):
        method = started(copies=copies)
        session = sessions_of(method)[1]
        assert session.view is not None
        for pair, labels, _ in lessons(method, session):
            for view in pair:
                distances = torch.cdist(view, session.view.final)
                assert float(distances.amin(1).max()) < 1e-3
                assert torch.equal(session.labels[distances.argmin(1)], labels)


def released_rates(epochs: int, warmup: int, peak: float) -> list[float]:
    """The released schedule as it goes from one epoch to the next."""
    rate = 3e-5 if warmup else peak
    found = [rate]
    for epoch in range(1, epochs):
        if epoch < warmup:
            rate += (peak - 3e-5) / (warmup - 1)
        elif epoch == warmup:
            rate = peak
        else:
            share = math.pi / (epochs - warmup)
            rate *= (1 + math.cos(share * (epoch - warmup))) / (1 + math.cos(share * (epoch - warmup - 1)))
        found.append(rate)
    return found


@pytest.mark.parametrize(("epochs", "warmup"), [(100, 10), (30, 2), (12, 1), (7, 0)])
def test_every_epoch_has_the_released_rate(epochs: int, warmup: int) -> None:
    method = started(epochs=epochs, warmup_epochs=warmup, lr=0.1)
    assert [method._rate(epoch) for epoch in range(epochs)] == pytest.approx(released_rates(epochs, warmup, 0.1))
    if epochs == 100:  # worked out by hand
        assert [method._rate(e) for e in (0, 1, 9, 10, 55)] == pytest.approx(
            [3e-5, 0.0111378, 0.1, 0.1, 0.05], abs=1e-7
        )


@pytest.mark.parametrize("first_step", ["released", "dampened"])
def test_a_whole_session_against_a_slow_twin(first_step: str) -> None:
    """SGD with momentum, dampening and decay by hand, on the loss of every batch."""
    method = started(
        lr=0.2, weight_decay=0.05, weight_base=0.3, first_step=first_step, augment=AugmentConfig(noise=0.1)
    )
    sessions = sessions_of(method)
    learn(method, sessions[:2])
    session, generator = sessions[2], method._generator(2, CPU)
    kept = [(s.images[method.keep(s)], s.labels[method.keep(s)]) for s in sessions[:2] if s.images is not None]
    memory = Memory(torch.cat([images for images, _ in kept]), torch.cat([labels for _, labels in kept]))
    twin = started(**{f.name: getattr(method, f.name) for f in dataclasses.fields(method)})
    twin.load_state_dict(method.state_dict())
    learn(method, [session])

    weights = {name: value.clone() for name, value in twin.aligned_.items()}
    speeds: dict[str, Tensor] = {}
    for pair, labels, rate in twin._lessons(dataclasses.replace(session, memory=memory), generator):
        at = {name: value.clone().requires_grad_() for name, value in weights.items()}
        unit = F.normalize(project(at, pair), dim=-1)
        fillers = perturbed(method.targets_, BASE, len(labels), 1e-2, generator)
        pulls = Pulls(session.classes.stop, BASE, 0.5, 0.3)
        alignment_loss(unit, labels, method.targets_, pulls, fillers).backward()
        for name, value in at.items():
            assert value.grad is not None
            gradient = value.grad + 0.05 * weights[name]
            heavy = name not in speeds and first_step == "released"
            speeds[name] = 0.9 * speeds.get(name, torch.zeros(())) + (1.0 if heavy else 0.1) * gradient
            weights[name] = weights[name] - rate * speeds[name]
    for name, value in weights.items():
        assert torch.allclose(method.projector_[name], value, atol=1e-5)


def test_without_targets_it_makes_them_and_learns_an_easy_world() -> None:
    """On features alone; what sessions need besides, the base session does not."""
    (base, *_), (exam, *_) = make_world(spread=0.2)
    method = started(base_steps=60, base_lr=0.5, hidden=64, width=32, targets=14)
    method.fit_base(base)
    view, labels = exam
    assert float((method.scores(view).argmax(1) == labels).float().mean()) > 0.95
    assert method.targets_.shape == (14, 32)
    again = started(base_steps=60, base_lr=0.5, hidden=64, width=32, targets=14)
    torch.manual_seed(77)  # whose numbers are its own
    again.fit_base(base)
    assert torch.equal(again.scores(view), method.scores(view))


def test_a_network_of_the_first_stage_alone_brings_its_projector() -> None:
    method = started(base_steps=0)
    first = {name: value for name, value in trained().items() if name.startswith("projector.")}
    base = dataclasses.replace(prepared(method, tiny_benchmark())[0], extras=first)
    learn(method, [base])
    assert all(torch.equal(method.aligned_[name.removeprefix("projector.")], value) for name, value in first.items())
    assert method.targets_.shape == (100, WIDTH)
    # An alignment of no epochs has assigned nothing.
    assert base.view is not None
    method = started(base_steps=0)
    learn(method, [sessions_of(method, assigned=torch.tensor(False))[0]])
    assert method.targets_.shape == (100, WIDTH)
    projected = by_hand(first, base.view.final)
    means = torch.stack([projected[base.labels == c].mean(0) for c in base.classes])
    total = float(F.cosine_similarity(means, method.targets_[:BASE], dim=-1).sum())
    assert total > float(F.cosine_similarity(means, method.targets_[BASE : 2 * BASE], dim=-1).sum())


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    method = started()
    extras = trained()
    extras["targets"] = extras["targets"][: BASE + WAY]
    sessions = sessions_of(method, **extras)
    learn(method, sessions[:2])
    with pytest.raises(InputError, match=r"reserved places for 10 classes and is shown 12; set options\.orco\.targets"):
        learn(method, sessions[2:])
    with pytest.raises(InputError, match="reserved places for 5 classes and is shown 8"):
        learn(started(targets=5), prepared(method, tiny_benchmark())[:1])
    with pytest.raises(InputError, match=r"options\.orco\.copies must be 0 or at least 2"):
        started(copies=1)
    with pytest.raises(InputError, match=r"options\.orco\.augment makes copies of single images"):
        started(augment={"mixup": 0.5})


def test_copies_of_a_batch_are_others_for_every_number() -> None:
    session = sessions_of(started())[1]
    assert session.images is not None
    copies = Copies(session, AugmentConfig(noise=0.3), 0)
    one, same, other = (copies.anew(session.images, number) for number in (4, 4, 5))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other, atol=1e-3)

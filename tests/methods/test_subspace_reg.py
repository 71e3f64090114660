"""Subspace regularizers: what pulls new rows, what holds old ones, what is seen again, when it is enough."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from slow_twins import same_loss_and_gradients, surprise
from test_method_contract import learn
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, SHOT, WAY, exam_view, prepared, tiny_benchmark, tiny_network
from torch import Tensor, nn

from fscil.backbones import CosineHead, EtfHead, LinearHead
from fscil.core.config import AugmentConfig
from fscil.core.errors import InputError
from fscil.data import Session, View
from fscil.methods import make
from fscil.methods.copies import Copies
from fscil.methods.subspace_reg import SubspaceRegularizer, settle
from fscil.training.checkpoint import Classifier

DIM = 16
SHIFTS = {"translate": 0.2, "flip": 0.5, "border": "black"}


def started(**options: Any) -> SubspaceRegularizer:
    method = make("subspace-reg", {"steps": 5, **options})
    assert isinstance(method, SubspaceRegularizer)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def sessions_of(method: SubspaceRegularizer, kind: type[Any] = LinearHead) -> list[Session]:
    """As the protocol brings them, by a network with a head of that kind."""
    torch.manual_seed(1)
    head = {
        LinearHead: lambda: LinearHead(DIM, BASE, bias=False),
        CosineHead: lambda: CosineHead(DIM, BASE, 20.0),
        EtfHead: lambda: EtfHead(DIM, BASE, 16.0),
    }[kind]().requires_grad_(False)
    network = Classifier.planned(tiny_network().classifier.plan).eval().requires_grad_(False)
    network.backbone.load_state_dict(tiny_network().backbone.state_dict())
    network.head = head
    found = [dataclasses.replace(session, network=network) for session in prepared(method, tiny_benchmark())]
    found[0] = dataclasses.replace(found[0], head=None if kind is EtfHead else head.weight.clone())
    return found


@pytest.mark.parametrize("kind", [LinearHead, CosineHead])
def test_it_begins_as_the_networks_own_classifier(kind: type[Any]) -> None:
    method = started()
    base = sessions_of(method, kind)[0]
    learn(method, [base])
    view = exam_view(method, tiny_benchmark())
    assert torch.allclose(method.scores(view), base.network.head(view.final), atol=1e-4)
    if kind is LinearHead:
        assert torch.equal(method.rows_, base.network.head.weight)


def test_without_rows_it_begins_at_class_means() -> None:
    for options, kind in (({}, EtfHead), ({"rows": "means"}, LinearHead)):
        method = started(scale=10.0, **options)
        base = sessions_of(method, kind)[0]
        learn(method, [base])
        assert base.view is not None
        unit = F.normalize(base.view.final, dim=-1)
        means = torch.stack([unit[base.labels == c].mean(0) for c in base.classes])
        view = exam_view(method, tiny_benchmark())
        expected = 10 * F.cosine_similarity(view.final[:, None], means[None], dim=-1)
        assert torch.allclose(method.scores(view), expected, atol=1e-4)
    with pytest.raises(InputError, match=r"rows=head needs a network with a linear or a cosine head\.$"):
        learn(started(rows="head"), [sessions_of(started(), EtfHead)[0]])


def test_the_projection_is_that_of_the_span_of_the_base_rows() -> None:
    method = started()
    learn(method, sessions_of(method)[:1])
    projection = method.basis_ @ method.basis_.T
    assert torch.allclose(projection, projection.T, atol=1e-6)
    assert torch.allclose(projection @ projection, projection, atol=1e-5)
    assert int(torch.linalg.matrix_rank(projection)) == BASE
    assert torch.allclose(method.rows_ @ projection, method.rows_, atol=1e-5)
    pseudo = torch.linalg.pinv(method.rows_.double())
    assert torch.allclose(projection.double(), pseudo @ method.rows_.double(), atol=1e-5)


def pulled(method: SubspaceRegularizer, new: Tensor) -> Tensor:
    """The pull alone: no shots are told apart, old rows are where they were."""
    rows = torch.cat([method.kept_rows_, new])
    none = torch.zeros(0, DIM), torch.zeros(0, dtype=torch.long)
    shots = torch.zeros(1, DIM)
    return method._loss(rows, shots, torch.zeros(1, dtype=torch.long), *none) - math.log(len(rows))


def test_the_pull_is_nothing_in_the_span_and_its_gradient_is_orthogonal_to_it() -> None:
    method = started(pull=0.7)
    learn(method, sessions_of(method)[:1])
    generator = torch.Generator().manual_seed(0)
    inside = torch.randn(WAY, BASE, generator=generator) @ method.rows_
    assert float(pulled(method, inside)) == pytest.approx(0, abs=1e-5)
    new = torch.randn(WAY, DIM, generator=generator).requires_grad_()
    pulled(method, new).backward()
    assert new.grad is not None
    projection = method.basis_ @ method.basis_.T
    off = (new - new @ projection).detach()
    assert torch.allclose(new.grad, 2 * 0.7 * off, atol=1e-5)
    assert float((new.grad @ method.rows_.T).abs().max()) < 1e-5
    assert float(pulled(method, new).detach()) == pytest.approx(0.7 * float(off.square().sum()), rel=1e-4)


def test_old_rows_that_have_not_moved_cost_nothing_and_have_gradients() -> None:
    method = started(pull=0.0)
    learn(method, sessions_of(method)[:2])
    rows = torch.cat([method.kept_rows_, torch.zeros(1, DIM)]).requires_grad_()
    none = torch.zeros(0, DIM), torch.zeros(0, dtype=torch.long)
    loss = method._loss(rows, torch.zeros(1, DIM), torch.zeros(1, dtype=torch.long), *none)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(math.log(len(rows)))
    assert rows.grad is not None
    assert not rows.grad.any()  # neither are they nan


def test_the_whole_loss_against_a_slow_twin() -> None:
    method = started(weight_base=0.3, weight_old=0.4, pull=0.6)
    learn(method, sessions_of(method)[:3])
    generator = torch.Generator().manual_seed(2)
    old, classes = BASE + 2 * WAY, BASE + 3 * WAY
    assert len(method.kept_rows_) == old
    rows = torch.cat([method.rows_, torch.zeros(WAY, DIM)]) + 0.1 * torch.randn(classes, DIM, generator=generator)
    rows.requires_grad_()
    shots, labels = torch.randn(7, DIM, generator=generator), torch.randint(classes, (7,), generator=generator)
    memory, names = torch.randn(5, DIM, generator=generator), torch.randint(old, (5,), generator=generator)
    fast = method._loss(rows, shots, labels, memory, names)

    slow = torch.zeros(())
    for images, of in ((shots, labels), (memory, names)):
        losses = [surprise([x @ row for row in rows], int(c)) for x, c in zip(images, of, strict=True)]
        slow = slow + sum(losses) / len(losses)
    for members, weight in ((range(BASE), 0.3), (range(BASE, old), 0.4)):
        slow = slow + weight * sum(((rows[c] - method.kept_rows_[c]) ** 2).sum() for c in members) ** 0.5
    for c in range(old, classes):
        inside = sum((rows[c] @ direction) * direction for direction in method.basis_.T)
        slow = slow + 0.6 * ((rows[c] - inside) ** 2).sum()
    assert isinstance(slow, Tensor)
    same_loss_and_gradients(fast, slow, [rows])


def written_out(method: SubspaceRegularizer, session: Session, memory: tuple[Tensor, Tensor], steps: int) -> Tensor:
    """Rows after a session: SGD with momentum and decay by hand, on gradients of the loss."""
    copies = Copies(session, method.augment, method.seed_)
    assert session.images is not None
    images, names = memory
    shots = [copies.lasting(image[None], method.copies) for image in session.images]
    x = [*torch.cat(shots), *[copies.lasting(images[i : i + 1], 1)[0] for i in range(len(names)) if names[i] < BASE]]
    y = [*session.labels.repeat_interleave(method.copies), *names[names < BASE]]
    later = [i for i in range(len(names)) if names[i] >= BASE]
    old = torch.cat([copies.lasting(images[i : i + 1], method.copies) for i in later]) if later else torch.zeros(0, DIM)
    of_old = names[later].repeat_interleave(method.copies) if later else torch.zeros(0, dtype=torch.long)
    rows = torch.cat([method.rows_, method._fresh_rows(session)])
    speed = torch.zeros_like(rows)
    for step in range(steps):
        at = rows.clone().requires_grad_()
        method._loss(at, torch.stack(x), torch.stack(y), old, of_old).backward()
        assert at.grad is not None
        gradient = at.grad + method.weight_decay * rows
        speed = gradient if step == 0 else method.momentum * speed + gradient
        rows = rows - method.lr * speed
    return rows


@pytest.mark.parametrize("replay", [True, False])
def test_whole_sessions_against_a_slow_twin(replay: bool) -> None:
    """With what is seen again: a copy of one image of each base class, all copies of one image of each later class."""
    method = started(lr=0.05, weight_decay=0.1, copies=3, augment=AugmentConfig(**SHIFTS), replay=replay)
    sessions = sessions_of(method)
    kept = torch.zeros(0, 8, 8, 3, dtype=torch.uint8), torch.zeros(0, dtype=torch.long)
    for session in sessions:
        expected = written_out(method, session, kept, method.steps) if session.index else None
        before = method.rows_.clone() if session.index else None
        learn(method, [session])
        if expected is not None and before is not None:
            assert torch.allclose(method.rows_, expected, atol=1e-4)
            assert not torch.allclose(method.rows_[: len(before)], before, atol=1e-3)  # old rows move too
        if replay:
            chosen = method.keep(session)
            assert session.labels[chosen].tolist() == list(session.classes)
            assert session.images is not None
            kept = torch.cat([kept[0], session.images[chosen]]), torch.cat([kept[1], session.labels[chosen]])
    assert (method.memory() is not None) == replay
    assert len(kept[1]) == (BASE + SESSIONS * WAY) * replay


def test_rows_are_held_where_their_own_session_left_them() -> None:
    method = started(lr=0.05)
    sessions = sessions_of(method)
    learn(method, sessions[:1])
    base, after = method.rows_.clone(), []
    for session in sessions[1:]:
        learn(method, [session])
        after.append(method.rows_[-WAY:].clone())
    assert torch.equal(method.kept_rows_, torch.cat([base, *after]))
    assert not torch.equal(method.kept_rows_[:BASE], method.rows_[:BASE])
    assert torch.equal(method.basis_, torch.linalg.qr(base.T).Q)  # never extended


def test_new_rows_start_as_those_of_a_linear_layer() -> None:
    method = started()
    method.rows_ = torch.zeros(BASE, 400)
    drawn = [method._fresh_rows(Session(index, range(BASE, BASE + 50), None, torch.zeros(0))) for index in (1, 2)]
    torch.manual_seed(0)
    linear = torch.nn.Linear(400, 50).weight.detach()
    for rows in drawn:
        assert float(rows.abs().max()) == pytest.approx(float(linear.abs().max()), rel=1e-3)
        assert float(rows.std()) == pytest.approx(float(linear.std()), rel=0.02)
        assert float(rows.mean()) == pytest.approx(0, abs=1e-3)
    assert not torch.equal(*drawn)


@pytest.mark.parametrize(
    ("losses", "steps", "expected"),
    [
        ([1.0] * 50, 50, 11),  # the first has nothing before it
        ([1.0] * 50, 7, 7),
        ([5.0, *[1.0] * 50], 50, 12),
        ([*[1.0] * 10, 2.0, *[1.0] * 50], 60, 22),  # a jump begins the count anew: 9 in a row are not 10
        ([1 - 0.9e-4 * n for n in range(60)], 60, 11),
        ([1 - 1.1e-4 * n for n in range(60)], 60, 60),
    ],
)
def test_a_session_ends_when_the_loss_stands_still(losses: list[float], steps: int, expected: int) -> None:
    parameter = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
    values = iter(losses)

    def loss() -> Tensor:  # whose gradient is 1
        return next(values) + parameter - parameter.detach()

    took = settle(loss, torch.optim.SGD([parameter], lr=1.0), steps, settled=10, tolerance=1e-4)
    assert took == expected
    assert float(parameter.detach()) == pytest.approx(-expected)  # the last step is done too


def test_an_image_has_the_same_copies_in_any_company() -> None:
    method = started(augment=AugmentConfig(**SHIFTS))
    first, second = sessions_of(method)[1:3]
    assert first.images is not None
    assert second.images is not None
    made = Copies(first, method.augment, 0).lasting(first.images, 3).view(3, WAY * SHOT, DIM)
    mixed = torch.cat([second.images[:4], first.images[6:7], second.images[4:]])
    later = Copies(second, method.augment, 0).lasting(mixed, 3).view(3, -1, DIM)
    assert torch.allclose(made[:, 6], later[:, 4], atol=1e-5)
    assert len({tuple(x.tolist()) for x in made.flatten(0, 1).round(decimals=4)}) > 20  # of 30: shifts may agree
    other = Copies(first, method.augment, 1).lasting(first.images, 3)
    assert not torch.allclose(made.flatten(0, 1), other, atol=1e-2)
    assert Copies(first, method.augment, 0).lasting(first.images[:0], 3).shape == (0, DIM)


def test_copies_without_any_change_are_the_images() -> None:
    method = started()
    session = sessions_of(method)[1]
    assert session.images is not None
    assert session.view is not None
    copies = Copies(session, AugmentConfig(), 0)
    assert torch.allclose(copies.lasting(session.images, 2), session.view.final.repeat(2, 1), atol=1e-5)
    assert torch.allclose(copies.anew(session.images, 3), session.view.final, atol=1e-5)


class Pixels(nn.Module):
    """A network that sees colours of places, so that its classes can be told apart without training."""

    dim = 48

    def forward(self, images: Tensor) -> Tensor:
        floats = images.permute(0, 3, 1, 2) / 255 if images.dtype == torch.uint8 else images
        return 6 * (F.avg_pool2d(floats, 2) - 0.5).flatten(1)


@pytest.mark.parametrize("replay", [True, False])
def test_it_learns_new_classes_and_keeps_the_old(replay: bool) -> None:
    method, benchmark, network = started(steps=200, lr=0.01, replay=replay), tiny_benchmark(), nn.Module()
    network.backbone = Pixels()
    for session in prepared(method, benchmark):
        assert session.images is not None
        learn(method, [dataclasses.replace(session, view=View(network.backbone(session.images)), network=network)])
    found = []
    for index in range(SESSIONS + 1):
        exam = benchmark.exam(index)
        scores = method.scores(View(network.backbone(exam.images)))
        found.append(float((scores.argmax(1) == exam.labels).float().mean()))
    assert min(found) > 0.95, found


def test_options_that_cannot_be_are_refused_in_a_sentence() -> None:
    for augment in ({"turn": 0.5}, {"mixup": 1.0}, {"cutmix": 1.0}):
        with pytest.raises(InputError, match=r"options\.subspace-reg\.augment makes copies of single images; .*\.$"):
            started(augment=augment)
    with pytest.raises(InputError, match=r"options\.subspace-reg\.augment\.flip must be a number"):
        started(augment={"flip": 2})
    without = dataclasses.replace(sessions_of(started())[1], network=None)
    method = started()
    learn(method, sessions_of(method)[:1])
    with pytest.raises(InputError, match="no network; run it with the network"):
        learn(method, [without])

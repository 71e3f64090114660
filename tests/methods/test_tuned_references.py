"""Fine-tuning, joint training and replay: single steps against gradients by hand, herding and means against loops."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, WAY, kept_for, prepared, tiny_benchmark, tiny_network
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data import Session
from fscil.evaluation.kept_images import KeptImages
from fscil.methods import Finetune, ICaRL, Joint, Method
from fscil.methods.icarl import herded
from fscil.methods.networks import seen
from fscil.methods.tuned import TunedCosine


def learning(method: Method, until: int = SESSIONS) -> tuple[KeptImages, list[Session]]:
    method.start(seed=0, depth=DEPTH, device=CPU)
    kept, sessions = kept_for(method), prepared(method, tiny_benchmark())
    for session in sessions[: until + 1]:
        kept.learn(session)
    return kept, sessions


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / a.norm() / b.norm()


def loss_in_loops(backbone: Any, rows: Tensor, images: Tensor, labels: Tensor) -> Tensor:
    losses = []
    for image, label in zip(images, labels.tolist(), strict=True):
        feature = backbone(image[None])[0]
        z = torch.stack([16 * cosine(feature, row) for row in rows])
        losses.append(z.exp().sum().log() - z[label])
    return torch.stack(losses).mean()


def stepped(parameters: list[Tensor], loss: Tensor, rate: float, decay: float) -> list[Tensor]:
    """One step of SGD from rest."""
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
    return [p.detach() - rate * (g + decay * p.detach()) for p, g in zip(parameters, gradients, strict=True)]


def twin_of(method: TunedCosine, start: Tensor) -> tuple[Any, Tensor, list[Tensor]]:
    """Network and rows as they are before the session, to be tuned by hand."""
    backbone, rows = copy.deepcopy(method.network_.backbone), start.clone().requires_grad_()
    backbone.requires_grad_().train()
    return backbone, rows, [*backbone.parameters(), rows]


def assert_stepped(method: TunedCosine, wanted: list[Tensor]) -> None:
    got = [*method.network_.backbone.parameters(), method.rows_]
    assert max(float((a - b).abs().max()) for a, b in zip(got, wanted, strict=True)) < 2e-6


def test_a_step_of_fine_tuning_by_hand() -> None:
    method = Finetune(steps=1, lr=0.05, weight_decay=0.1)
    kept, sessions = learning(method, until=0)
    new = torch.randn(WAY, 16, generator=torch.Generator().manual_seed(1)) * 0.02
    backbone, rows, parameters = twin_of(method, torch.cat([method.rows_, new]))
    assert sessions[1].images is not None
    wanted = stepped(parameters, loss_in_loops(backbone, rows, sessions[1].images, sessions[1].labels), 0.05, 0.1)
    kept.learn(sessions[1])
    assert_stepped(method, wanted)
    assert not torch.equal(method.rows_[:BASE], rows[:BASE])  # nothing protects the old classes


def test_a_step_of_replay_by_hand() -> None:
    """Shots and exemplars together; old classes are told as the network before told them, at the temperature."""
    method = ICaRL(exemplars=1, epochs=1, lr=0.05, weight_decay=0.1, distill=0.7, temperature=3.0)
    kept, sessions = learning(method, until=0)
    memory, session = kept._memory(sessions[0]), sessions[1]
    assert session.images is not None
    images, labels = torch.cat([memory.images, session.images]), torch.cat([memory.labels, session.labels])
    unit = torch.nn.functional.normalize(seen(method.network_, session.images), dim=-1)
    means = torch.stack([unit[session.labels == c].mean(0) for c in session.classes])
    long = method.rows_.norm(dim=1).mean()
    start = torch.cat([method.rows_, torch.stack([long * mean / mean.norm() for mean in means])])
    backbone, rows, parameters = twin_of(method, start)
    loss = loss_in_loops(backbone, rows, images, labels)
    for image in images:
        before, now = method.network_.backbone(image[None])[0], backbone(image[None])[0]
        told = torch.stack([16 * cosine(before, row) / 3 for row in method.rows_]).softmax(0)
        logs = torch.stack([16 * cosine(now, row) / 3 for row in rows[:BASE]]).log_softmax(0)
        loss = loss - 0.7 * (told * logs).sum() / len(images)
    wanted = stepped(parameters, loss, 0.05, 0.1)
    kept.learn(session)
    assert_stepped(method, wanted)


@pytest.mark.parametrize("count", [1, 4, 9, 30])
def test_herding_against_loops(count: int) -> None:
    unit = torch.nn.functional.normalize(torch.randn(9, 5, generator=torch.Generator().manual_seed(count)), dim=-1)
    mean, chosen = sum(unit) / 9, list[int]()
    while len(chosen) < min(count, 9):
        best, nearest = -1, float("inf")
        for row in range(9):
            if row not in chosen:
                of_these = sum(unit[i] for i in [*chosen, row]) / (len(chosen) + 1)
                distance = float((mean - of_these).norm())
                best, nearest = (row, distance) if distance < nearest else (best, nearest)
        chosen.append(best)
    assert herded(unit, count).tolist() == chosen


@pytest.mark.parametrize("options", [{"exemplars": 3}, {"total": 31}])
def test_exemplars_are_herded_and_the_nearest_mean_of_them_answers(options: dict[str, int]) -> None:
    method = ICaRL(epochs=1, **options)
    method.start(seed=0, depth=DEPTH, device=CPU)
    kept, orders = kept_for(method), dict[int, list[int]]()
    for session in prepared(method, tiny_benchmark()):
        kept.learn(session)
        most = 3 if "exemplars" in options else 31 // session.classes.stop
        assert session.images is not None
        for c in session.classes:
            rows = torch.nonzero(session.labels == c).flatten()
            unit = torch.nn.functional.normalize(seen(method.network_, session.images[rows]), dim=-1)
            orders[c] = rows[herded(unit, 31)].tolist()
        labels = kept._labels.tolist()
        for c in range(session.classes.stop):
            of_class = [row for (_, row), label in zip(kept.places.tolist(), labels, strict=True) if label == c]
            assert of_class == orders[c][:most]  # a list that shrinks loses its last
        memory = kept._memory(session)
        unit = torch.nn.functional.normalize(seen(method.network_, memory.images), dim=-1)
        for c in range(session.classes.stop):
            mean = unit[memory.labels == c].mean(0)
            assert torch.allclose(method.means_[c], mean / mean.norm(), atol=1e-5)
        answers = method.scores(session.view)  # type: ignore[arg-type]
        nearest = torch.cdist(
            torch.nn.functional.normalize(seen(method.network_, session.images), dim=-1), method.means_
        )
        assert torch.equal(answers.argmax(1), nearest.argmin(1))


def test_too_few_exemplars_for_the_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"options\.icarl\.total=9 is less than an image of each of 10 classes"):
        learning(ICaRL(total=9, epochs=0))


def test_joint_training_sees_everything_and_does_not_depend_on_earlier_sessions() -> None:
    whole, hurried = Joint(steps=4, batch=16), Joint(steps=0, batch=16)
    kept, _ = learning(whole)
    assert len(kept.places) == len(kept.places.unique(dim=0)) == BASE * 13 + WAY * SESSIONS * 5
    other, sessions = learning(hurried, until=SESSIONS - 1)  # whose sessions before were not trained at all
    assert not torch.equal(hurried.rows_[:BASE], whole.rows_[:BASE])
    hurried.steps = 4
    other.learn(sessions[SESSIONS])
    assert torch.equal(whole.rows_, hurried.rows_)
    ours, theirs = whole.network_.state_dict(), hurried.network_.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_joint_training_draws_every_class_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []

    def draws(
        self: Joint, session: Session, start: Tensor, images: Tensor, labels: Tensor, rows: Any, steps: int
    ) -> None:
        drawn.extend(labels[rows()] for _ in range(steps))
        self.rows_ = start

    monkeypatch.setattr(Joint, "train", draws)
    learning(Joint(steps=100, batch=50), until=1)
    counts = torch.cat(drawn).bincount(minlength=BASE + WAY).float()
    assert len(counts) == BASE + WAY
    assert (counts / 5000 - 0.1).abs().max() < 4 * (0.09 / 5000) ** 0.5


def test_joint_training_goes_on_from_the_network_of_base_training() -> None:
    method = Joint(steps=0)
    learning(method)
    wanted = tiny_network().classifier.backbone.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in method.network_.backbone.state_dict().items())
    assert torch.equal(method.rows_[:BASE], tiny_network().classifier.head.weight[:BASE])
    assert torch.allclose(method.rows_.norm(dim=1)[BASE:], method.rows_[:BASE].norm(dim=1).mean())


def test_the_rate_falls_to_zero_but_for_plain_fine_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.SGD.step

    def noted(self: torch.optim.SGD, *arguments: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", noted)
    for method in (Joint(steps=4, lr=1.0), Finetune(steps=4, lr=1.0)):
        learning(method, until=1)
    assert rates == pytest.approx([1.0, 0.8536, 0.5, 0.1464, 1.0, 1.0, 1.0, 1.0], abs=1e-4)

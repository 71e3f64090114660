"""BiDist: steps of a session against plain loops; what stays, stays to the last bit; one image of a class is kept."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from tiny_benchmark import BASE, CPU, DEPTH, SESSIONS, WAY, kept_for, prepared, tiny_benchmark, tiny_network
from torch import Tensor, nn

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data import Session
from fscil.data.session import PixelView
from fscil.evaluation.kept_images import KeptImages
from fscil.evaluation.protocol import prepare
from fscil.methods import make
from fscil.methods.base import seeded
from fscil.methods.bidist import Batch, BiDist, Opinions, merged, two_layers
from fscil.methods.networks import seen
from fscil.training.checkpoint import Checkpoint, Classifier

ODD: dict[str, Any] = {  # numbers that no two of can be mistaken for each other
    "steps": 2, "lr": 0.05, "mixing_lr": 0.3, "momentum": 0.8, "weight_decay": 0.1, "replay": 6, "distilled": 3,
    "temperature": 3.0, "hidden": 5, "weight_kept": 0.7, "weight_distilled": 2.1, "weight_trust": 0.9,
    "weight_merged": 0.4, "weight_branch": 1.3,
}  # fmt: skip
FEW: dict[str, Any] = {"steps": 3, "replay": 6, "lr": 0.05}


def started(**options: Any) -> BiDist:
    method = make("bidist", options)
    assert isinstance(method, BiDist)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def convolutional(head: str = "cosine") -> Checkpoint:
    """With statistics of batch-norm that fit its weights."""
    torch.manual_seed(0)
    backbone = BackboneConfig(kind="resnet20", image_size=8)
    network = Classifier(backbone, TrainConfig(head=head, logit_scale=9.0), BASE)  # type: ignore[arg-type]
    for _ in range(9):
        network.train().backbone(torch.rand(40, 3, 8, 8))
    return Checkpoint(network.eval().requires_grad_(False), {"classes": BASE, "outputs": BASE})


def learning(method: BiDist, until: int = 0, network: Checkpoint | None = None) -> tuple[KeptImages, list[Session]]:
    sessions = prepared(method, tiny_benchmark())
    if network:
        count = range(SESSIONS + 1)
        sessions = [prepare(tiny_benchmark().session(i), method, None, CPU, network) for i in count]  # type: ignore[arg-type]
    kept = kept_for(method)
    for session in sessions[: until + 1]:
        kept.learn(session)
    return kept, sessions


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def means_in_loops(network: Classifier, session: Session) -> Tensor:
    assert session.images is not None
    features = unit(seen(network, session.images))
    return torch.stack([features[session.labels == c].sum(0) / (session.labels == c).sum() for c in session.classes])


def share(logits: Tensor) -> Tensor:
    return logits.exp() / logits.exp().sum()


def through(layers: nn.Module, x: Tensor) -> Tensor:
    weight, bias, other_weight, other_bias = layers.parameters()
    return other_weight @ (weight @ x + bias).clamp(min=0) + other_bias


def loss_in_loops(
    images: Tensor, labels: list[int], shots: int, networks: list[Any], rows: list[Tensor], mixers: list[nn.Module]
) -> Tensor:
    """Of the options ODD. Networks and rows: of the base, of the copy before the session, of the copy now."""
    count, first_session = len(labels), len(rows[0]) == BASE + WAY
    teachers, branches = mixers
    loss, trusted = torch.zeros(()), []
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        base, before, now = (
            torch.stack([9 * unit(network(image[None])[0]) @ unit(row) for row in own])
            for network, own in zip(networks, rows, strict=True)
        )
        base, before = base.detach(), before.detach()
        if place < shots:
            loss = loss - share(now)[label].log() / shots
        else:
            loss = loss - 0.7 * share(now)[label].log() / (count - shots)
        if place >= shots - 3:
            wanted = base
            if label >= BASE and not first_session:
                likeness = torch.stack([unit(rows[0][label]) @ unit(rows[0][other]) for other in range(BASE)])
                trust = 1 / (1 + (-through(teachers, likeness)[0]).exp())
                wanted = trust * base + (1 - trust) * before
                trusted.append(trust)
            p, q = share(wanted / 3.0), share(now / 3.0)
            kl = sum(p[c] * (p[c].log() - q[c].log()) for c in range(len(p)))
            loss = loss + 2.1 * 9 * kl / (count - shots + 3)
        own = now.detach()
        branch = share(through(branches, torch.cat([share(base), share(own)])))
        loss = loss - 0.4 * share(branch[0] * base + branch[1] * own)[label].log() / count
        loss = loss - 1.3 * branch[int(label >= BASE)].log() / count
    return loss + 0.9 * sum(1 - trust for trust in trusted) / max(1, len(trusted))


@pytest.mark.parametrize("index", [1, 2])
def test_two_steps_of_a_session_by_hand(index: int) -> None:
    method = started(**ODD)
    kept, sessions = learning(method, until=index - 1, network=convolutional())
    session, memory = sessions[index], kept._memory(sessions[0])
    assert session.images is not None
    old = len(method.rows_)
    base, copy_now = copy.deepcopy(method.base_network_), copy.deepcopy(method.network_)
    before = copy.deepcopy(copy_now.backbone)
    start = torch.cat([method.rows_, means_in_loops(copy_now, session)])
    base_rows = torch.cat([method.base_rows_, means_in_loops(base, session)])
    rows = start.clone().requires_grad_()
    with seeded(index, CPU):
        teachers, branches = two_layers(BASE, 5, 1), two_layers(2 * (old + WAY), 5, 2)
    names = [n for n, _ in copy_now.backbone.named_parameters() if n.startswith("trunk.2.")]
    stage: list[Tensor] = [copy_now.backbone.get_parameter(name).requires_grad_() for name in names]
    slow, fast = [*stage, rows], [*teachers.parameters(), *branches.parameters()]
    rates, random = [0.05] * len(slow) + [0.3] * len(fast), method._generator(index, CPU)
    speeds: list[Tensor] = []
    for _ in range(2):
        order = torch.rand(len(session), generator=random).argsort()
        later = (memory.labels >= BASE).nonzero().flatten()
        base_ones = (memory.labels < BASE).nonzero().flatten()
        if index == 1:
            chosen = torch.randint(BASE, (6,), generator=random)
        else:
            chosen = base_ones[torch.randint(BASE, (3,), generator=random)]
            chosen = torch.cat([chosen, later[torch.randint(WAY * (index - 1), (3,), generator=random)]])
        images = torch.cat([session.images[order], memory.images[chosen]])
        labels = torch.cat([session.labels[order], memory.labels[chosen]]).tolist()
        networks = [base.backbone, before, copy_now.backbone]
        loss = loss_in_loops(images, labels, len(order), networks, [base_rows, start, rows], [teachers, branches])
        gradients = torch.autograd.grad(loss, [*slow, *fast], allow_unused=True)
        with torch.no_grad():
            if not speeds:
                speeds = [torch.zeros_like(p) for p in [*slow, *fast]]
            for place, (value, gradient) in enumerate(zip([*slow, *fast], gradients, strict=True)):
                if gradient is None:  # nobody asks the teachers' layers in the first session
                    assert index == 1
                    continue
                gradient = gradient + 0.1 * value
                speeds[place] = 0.8 * speeds[place] + gradient
                value -= rates[place] * (gradient + 0.8 * speeds[place])
    kept.learn(session)
    for name, value in zip(names, stage, strict=True):
        assert torch.allclose(method.network_.backbone.get_parameter(name), value, atol=2e-5), name
    assert torch.allclose(method.rows_, rows, atol=2e-5)
    assert torch.equal(method.base_rows_, base_rows)
    for got, wanted in zip(method.branches_.parameters(), branches.parameters(), strict=True):
        assert torch.allclose(got, wanted, atol=2e-5)


def test_base_images_hear_the_base_network_alone_and_later_ones_a_mixture() -> None:
    method = started(**FEW)
    learning(method, until=1)
    method.base_rows_ = torch.cat([method.base_rows_, method.base_rows_[-WAY:].flip(1)])  # as in the second session
    base, before = (torch.randn(6, BASE + 2 * WAY, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    labels = torch.tensor([0, 3, BASE, BASE + 1, BASE + 2, BASE - 1])
    with seeded(0, CPU):
        teachers = two_layers(BASE, 5, 1)
    wanted, trust = method._teacher(Opinions(base, before, before), labels, teachers)
    assert trust is not None
    earlier = labels < BASE
    assert torch.equal(wanted[earlier], base[earlier])
    assert (trust[earlier] == 1).all()
    assert ((trust[~earlier] > 0) & (trust[~earlier] < 1)).all()
    assert trust[2] != trust[3]
    for place in (2, 3, 4):
        expected = trust[place] * base[place] + (1 - trust[place]) * before[place]
        assert torch.allclose(wanted[place], expected)
    wanted[2].sum().backward()
    assert all(part.grad is not None and part.grad.abs().sum() > 0 for part in teachers[2].parameters())


def test_in_the_first_session_the_base_network_teaches_alone() -> None:
    method = started(**FEW)
    learning(method)
    base, before = torch.zeros(3, BASE + WAY), torch.ones(3, BASE + WAY)
    wanted, trust = method._teacher(Opinions(base, before, before), torch.tensor([0, 1, BASE]), nn.Identity())
    assert wanted is base
    assert trust is None


def parts_of_the_loss(**weights: float) -> tuple[BiDist, Batch, Opinions, list[nn.Module]]:
    method = started(
        **{"weight_kept": 0.0, "weight_distilled": 0.0, "weight_merged": 0.0, "weight_branch": 0.0} | weights
    )
    learning(method)
    torch.manual_seed(3)
    base, now = torch.randn(8, BASE + WAY), torch.randn(8, BASE + WAY).requires_grad_()
    batch = Batch(torch.empty(0), torch.tensor([BASE, BASE + 1, BASE, BASE + 1, 0, 1, 2, 0]), 4)
    return method, batch, Opinions(base, base, now), [two_layers(BASE, 5, 1), two_layers(2 * (BASE + WAY), 5, 2)]


def test_nothing_is_to_be_learned_from_a_teacher_that_agrees() -> None:
    method, batch, answers, mixers = parts_of_the_loss()
    agreeing = dataclasses.replace(answers, base=answers.now.detach())
    alone = method._loss(batch, agreeing, *mixers)
    method.weight_distilled = 100.0
    assert float((method._loss(batch, agreeing, *mixers) - alone).detach()) == pytest.approx(
        0, abs=0.01
    )  # of 100 * 16^2 times a rounding
    assert float((method._loss(batch, answers, *mixers) - alone).detach()) > 1


def test_neither_network_learns_from_how_the_two_are_merged() -> None:
    gradients = []
    for weight in (0.0, 7.0):
        method, batch, answers, mixers = parts_of_the_loss(weight_merged=weight, weight_branch=3 * weight)
        method._loss(batch, answers, *mixers).backward()
        gradients.append(answers.now.grad)
        learned = [part.grad for part in mixers[1].parameters()]
    assert gradients[0] is not None
    assert torch.equal(gradients[0], gradients[1])  # type: ignore[arg-type]
    assert not gradients[0][4:].any()
    assert all(part is not None and part.any() for part in learned)


def test_networks_that_agree_are_merged_to_what_they_say() -> None:
    with seeded(0, CPU):
        branches, base, now = two_layers(12, 5, 2), torch.randn(9, 6), torch.randn(9, 6)
    assert torch.allclose(merged(branches, base, base), base, atol=1e-6)
    both = merged(branches, base, now)
    low, high = torch.minimum(base, now), torch.maximum(base, now)
    assert ((both >= low - 1e-6) & (both <= high + 1e-6)).all()
    assert not torch.allclose(both, (base + now) / 2, atol=1e-2)


def test_only_the_last_stage_and_the_rows_change() -> None:
    method = started(**FEW)
    kept, sessions = learning(method, network=convolutional())
    before, rows = copy.deepcopy(method.network_.backbone.state_dict()), method.rows_.clone()
    for session in sessions[1:]:
        kept.learn(session)
    after = method.network_.backbone.state_dict()
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert changed == {name for name, _ in method.network_.backbone.named_parameters() if name.startswith("trunk.2.")}
    assert all(torch.equal(value, before[name]) for name, value in method.base_network_.backbone.state_dict().items())
    assert torch.equal(method.base_rows_[:BASE], rows)
    assert not torch.isclose(method.rows_[:BASE], rows).all(1).any()  # old rows learn too
    assert len(method.rows_) == len(method.base_rows_) == BASE + WAY * SESSIONS


def test_one_image_of_every_class_is_kept_the_nearest_to_its_row() -> None:
    method = started(**FEW)
    kept, sessions = learning(method, network=convolutional())
    for index, session in enumerate(sessions):
        if index:
            kept.learn(session)
        assert session.images is not None
        features, places = unit(seen(method.network_, session.images)), []
        for label in session.classes:
            members = [row for row in range(len(session)) if session.labels[row] == label]
            places.append(max(members, key=lambda row: float(features[row] @ unit(method.rows_[label]))))
        assert kept.places[-len(session.classes) :].tolist() == [[index, place] for place in places]
    assert kept._labels.tolist() == list(range(BASE + WAY * SESSIONS))


def test_half_of_what_is_seen_again_is_of_base_classes() -> None:
    method = started(steps=1, replay=50)
    kept, sessions = learning(method, until=1)
    for index in (1, 2):
        session = dataclasses.replace(sessions[index], memory=kept._memory(sessions[index]))
        if index == 1:
            first = kept._labels < BASE
            session = dataclasses.replace(
                session,
                memory=type(session.memory)(session.memory.images[first], kept._labels[first]),  # type: ignore[union-attr]
            )
        batch = method._batch(session, torch.Generator().manual_seed(0))
        again = batch.labels[batch.shots :]
        assert sorted(batch.labels[: batch.shots].tolist()) == session.labels.tolist()
        assert batch.labels[: batch.shots].tolist() != session.labels.tolist()  # in another order
        assert len(again) == 50
        assert int((again < BASE).sum()) == (50 if index == 1 else 25)
        assert again[again < BASE].bincount(minlength=BASE).max() > 1  # with repetition


@pytest.mark.parametrize(
    ("head", "extra", "scale"), [("cosine", None, 9.0), ("cosine", 13.5, 13.5), ("linear", None, 7.0)]
)
def test_the_factor_is_that_of_base_training(head: str, extra: float | None, scale: float) -> None:
    method, network = started(scale=7.0, **FEW), convolutional(head)
    if extra:
        network = dataclasses.replace(network, extras={"cosine_scale": torch.tensor(extra)})
    _, sessions = learning(method, network=network)
    images = torch.from_numpy(tiny_benchmark()._dataset.test.images)
    expected = scale * unit(seen(network.classifier, images)) @ unit(means_in_loops(network.classifier, sessions[0])).T
    assert torch.allclose(method.scores(PixelView(images)), expected, atol=1e-4)


def test_the_base_network_alone_is_the_prototype_baseline() -> None:
    method, network = started(**FEW), convolutional()
    _, sessions = learning(method, until=SESSIONS, network=network)
    images = torch.from_numpy(tiny_benchmark()._dataset.test.images)
    rows = unit(torch.cat([means_in_loops(network.classifier, session) for session in sessions]))
    alone = method.variants()["base network"](PixelView(images))
    assert torch.allclose(alone, 9 * unit(seen(network.classifier, images)) @ rows.T, atol=1e-4)
    own = method.variants()["its copy"](PixelView(images))
    assert torch.allclose(method.scores(PixelView(images)), merged(method.branches_, alone, own))


def test_images_of_a_step_are_seen_as_in_training() -> None:
    """Enlarged they are outside training only."""
    method, network = started(**FEW), convolutional()
    kept, sessions = learning(method, network=network)
    sizes, before = set(), method.network_.backbone.forward_from
    method.network_.backbone.test_zoom = method.base_network_.backbone.test_zoom = 2.0

    def noted(inner: Tensor, stage: int) -> Tensor:
        sizes.add((stage, *inner.shape[2:]))
        return before(inner, stage)

    method.network_.backbone.forward_from = noted  # type: ignore[method-assign]
    method.steps = 1
    size = method.network_.backbone.train().forward_until(torch.rand(1, 3, 8, 8), 2).shape[2:]
    kept.learn(sessions[1])
    assert (2, *size) in sizes


def test_copies_of_mixed_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"options\.bidist\.augment makes copies of single images"):
        make("bidist", {"augment": {"mixup": 0.5}})


def test_the_network_of_others_is_left_alone() -> None:
    before = copy.deepcopy(tiny_network().classifier.state_dict())
    learning(started(**FEW), until=1)
    assert all(torch.equal(before[name], value) for name, value in tiny_network().classifier.state_dict().items())

"""MetaFSCIL's meta-training: a whole sequence against plain loops, with gradients; what sequences and steps keep."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from slow_twins import cosine, same_loss_and_gradients, surprise
from small_networks import CLASSES, DIM, classifier, image_session, objective, trainer, views_for
from torch import Tensor, nn

from fscil.backbones.modulated import Modulated
from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.hardware import make_fabric
from fscil.data import Session
from fscil.objectives.metafscil import Adaptation, MetaFSCILObjective, adapted, features_with, weights_of
from fscil.training.checkpoint import Classifier
from fscil.training.trainer import Trainer

SMALL: dict[str, Any] = {"known": 2, "sessions": 2, "way": 1, "shot": 2, "queries": 3, "rank": 3}
SETTINGS = "train.objective_options={known=2, sessions=2, way=1, shot=2, queries=3}"


def begun(**options: Any) -> tuple[Classifier, MetaFSCILObjective]:
    """As the training loop has them at the first step, with numbers that no start has."""
    network, part, session = classifier().eval(), objective("metafscil", **{**SMALL, **options}), image_session()
    assert isinstance(part, MetaFSCILObjective)
    assert session.images is not None
    with torch.no_grad():
        part.start(network)
        part.every_epoch(network, session.images, session.labels)
        random = torch.Generator().manual_seed(5)
        for parameter in part.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=random)
    return network, part


def standard(values: Tensor) -> Tensor:
    return (values - values.mean()) / (values.var(unbiased=False) + 1e-5).sqrt()


def written_out_block(block: Any, x: Tensor, qkv: Tensor) -> Tensor:
    """A transformer's block on the tokens of one image, with this matrix for queries, keys and values."""
    attention, (count, dim) = block.attn, x.shape
    width = dim // attention.heads
    q, k, v = (block.norm1(x) @ qkv.T + attention.qkv.bias).split(dim, 1)
    heads = []
    for head in range(attention.heads):
        own = slice(head * width, (head + 1) * width)
        rows = [(q[t, own] @ k[:, own].T / width**0.5).softmax(0) @ v[:, own] for t in range(count)]
        heads.append(torch.stack(rows))
    x = x + attention.proj(torch.cat(heads, 1))
    return x + block.mlp(block.norm2(x))


def written_out_features(main: Any, modulation: Any, image: Tensor) -> Tensor:
    """Of one image: the branch with its first matrices gated by the network's, and the network gated by the branch."""
    branch, gates = modulation.branch, []

    def gate(number: int, held: Tensor) -> None:
        norm = modulation.norms[number]
        gates.append(1 / (1 + (-(standard(held) * norm.weight + norm.bias)).exp()))

    def enter(network: Any) -> Tensor:
        return network.enter((image[None] - network.mean) / network.std)[0]

    x = enter(branch)
    for number, block in enumerate(branch.trunk.blocks):
        gate(number, x)
        first, _, second = modulation.translators[number]
        means = torch.stack([row.mean() for row in main.trunk.blocks[number].attn.qkv.weight])
        inner = (first.weight @ standard(means) + first.bias).clamp(min=0)
        factors = 1 / (1 + (-(second.weight @ inner + second.bias)).exp())
        x = written_out_block(block, x, block.attn.qkv.weight * factors[:, None])
    gate(len(branch.trunk.blocks), branch.trunk.norm(x)[0])
    x = enter(main)
    for number, block in enumerate(main.trunk.blocks):
        x = written_out_block(block, x * gates[number], block.attn.qkv.weight)
    return main.trunk.norm(x)[0] * gates[-1]


def mean_surprise(found: list[Tensor], rows: list[Tensor], labels: list[int]) -> Tensor:
    parts = [surprise([16 * cosine(x, row) for row in rows], y) for x, y in zip(found, labels, strict=True)]
    return torch.stack(parts).mean()


def test_a_sequence_against_plain_loops() -> None:
    options: dict[str, Any] = {"steps": 2, "lr": 0.05, "warmup_steps": 2, "warmup_lr": 0.03}
    network, part = begun(**options)
    (view,) = views_for(part)
    fast, _ = part(network, [view], torch.zeros(()))
    trained = [*network.backbone.parameters(), *part.modulation.parameters()]  # type: ignore[union-attr]

    names = [int(label) for label in view.labels[::5]]
    theirs: Any = copy.deepcopy(network.backbone)  # adapts, and what it hears in the end goes to the network itself
    rows = [part.rows[name].clone() for name in names[:2]]
    losses, told = [], [torch.zeros_like(parameter) for parameter in trained]
    for session in (2, 3):
        shots = [view.images[5 * session + k] for k in (0, 1)]
        with torch.no_grad():
            found = [written_out_features(theirs, part.modulation, image) for image in shots]
        new = sum(x / x.norm() for x in found)
        new = new / new.norm()  # type: ignore[union-attr]
        # With one class of its own there is nothing to tell apart, so the warm-up changes nothing.
        rows = [row.detach().requires_grad_() for row in [*rows, new]]
        for _ in range(2):
            own = list(theirs.parameters())
            loss = mean_surprise(
                [written_out_features(theirs, part.modulation, image) for image in shots], rows, [session] * 2
            )
            slopes = torch.autograd.grad(loss, [*own, *rows])
            with torch.no_grad():
                for value, slope in zip([*own, *rows], slopes, strict=True):
                    value -= 0.05 * slope
        images = [view.images[5 * c + k] for c in range(session + 1) for k in (2, 3, 4)]
        answers = [written_out_features(theirs, part.modulation, image) for image in images]
        error = mean_surprise(
            answers, [row.detach() for row in rows], [c for c in range(session + 1) for _ in range(3)]
        )
        parameters = [*theirs.parameters(), *part.modulation.parameters()]  # type: ignore[union-attr]
        for total, slope in zip(told, torch.autograd.grad(error, parameters), strict=True):
            total += slope / 2
        losses.append(error.detach())
    # A loss of that value whose gradients are those of the loops: to the adapted weights, as if they were the first.
    mine = sum((slope * value).sum() for slope, value in zip(told, trained, strict=True))
    slow = torch.stack(losses).mean() + mine - mine.detach()  # type: ignore[union-attr]
    same_loss_and_gradients(fast, slow, trained)


def test_the_warm_up_against_loops() -> None:
    network, part = begun()
    whole = Modulated(network.backbone, part.modulation)
    shots, labels = views_for(part)[0].images[:6], torch.tensor([2, 3, 2, 3, 3, 2])
    how = Adaptation(steps=0, lr=1.0, warmup_steps=3, warmup_lr=0.2, scale=16.0)
    old = torch.randn(2, DIM, generator=torch.Generator().manual_seed(0))
    weights, rows = adapted(whole, weights_of(whole), old, shots, labels, how)
    with torch.no_grad():
        found = whole(shots)
    new = torch.stack([sum(x / x.norm() for x, y in zip(found, labels, strict=True) if y == c) for c in (2, 3)])  # type: ignore[misc]
    new = new / new.norm(dim=1, keepdim=True)
    for _ in range(3):
        new = new.detach().requires_grad_()
        loss = mean_surprise(list(found), list(new), [int(y) - 2 for y in labels])
        new = new - 0.2 * torch.autograd.grad(loss, new)[0]
    assert torch.equal(rows[:2], old)
    assert torch.allclose(rows[2:], new, atol=1e-5)
    assert not torch.allclose(new.norm(dim=1), torch.ones(2), atol=1e-3)  # they did move
    assert all(weights[name] is parameter for name, parameter in weights_of(whole).items())


def test_adapting_leaves_the_network_as_it_is() -> None:
    network, part = begun()
    whole = Modulated(network.backbone, part.modulation)
    before = copy.deepcopy(whole.state_dict())
    shots, labels = views_for(part)[0].images[:4], torch.tensor([2, 2, 3, 3])
    how = Adaptation(steps=2, lr=0.1, warmup_steps=1, warmup_lr=0.1, scale=16.0)
    weights, _ = adapted(whole, weights_of(whole), part.rows[:2], shots, labels, how)
    assert all(torch.equal(before[name], value) for name, value in whole.state_dict().items())
    changed = [name for name, value in weights.items() if not torch.equal(value, before[f"main.{name}"])]
    assert len(changed) == len(weights)


def test_without_a_rate_the_gradient_is_that_of_the_queries_alone() -> None:
    network, part = begun(sessions=1, known=3, lr=0.0, warmup_steps=0)
    (view,) = views_for(part)
    fast, _ = part(network, [view], torch.zeros(()))
    whole = Modulated(network.backbone, part.modulation)
    images = view.images.unflatten(0, (4, 5))
    with torch.no_grad():
        unit = torch.nn.functional.normalize(whole(images[3, :2]), dim=-1).sum(0)
    rows = [*part.rows[view.labels[::5][:3]], unit]
    answers = [whole(images[c, k][None])[0] for c in range(4) for k in (2, 3, 4)]
    slow = mean_surprise(answers, rows, [c for c in range(4) for _ in range(3)])
    same_loss_and_gradients(fast, slow, list(whole.parameters()))


def test_a_sequence_parts_the_base_classes_and_its_images() -> None:
    """60 classes into 20 and eight times 5, as published; no query is a shot."""
    images = torch.arange(60 * 12, dtype=torch.int64)[:, None].expand(-1, 192)
    coded = torch.stack([images % 256, images // 256], -1).flatten(1)[:, :192].to(torch.uint8).view(-1, 8, 8, 3)
    session = Session(0, range(60), coded, torch.arange(60 * 12) // 12)
    config = configs.load("digits", ["accelerator=cpu", "train.objective=metafscil", "train.ema=0"])
    run = Trainer(make_fabric(config), session, config)
    assert run.episodes is not None
    for step in range(3):
        rows = run.episodes.draw(step).view(60, 10)
        assert rows.unique().numel() == 600
        assert sorted(int(row) // 12 for row in rows[:, 0]) == list(range(60))
        assert (rows // 12 == rows[:, :1] // 12).all()
    o = run.plain.objective.options
    assert (o.known, o.sessions, o.way, o.shot, o.queries) == (20, 8, 5, 5, 5)


def test_a_step_changes_network_and_modulation_and_no_head() -> None:
    run = trainer("metafscil", SETTINGS, "train.lr=0.01")
    classifier_, part = run.plain.classifier, run.plain.objective
    before = {name: value.clone() for name, value in run.plain.state_dict().items()}
    run.step(0)
    changed = {name for name, value in run.plain.state_dict().items() if not torch.equal(before[name], value)}
    assert all(f"classifier.{n}" in changed for n, _ in classifier_.named_parameters() if n.startswith("backbone."))
    modulation = {f"objective.{name}" for name, _ in part.named_parameters()}
    assert modulation <= changed
    assert "classifier.head.weight" not in changed


def test_the_branch_starts_as_the_trained_network_and_goes_its_own_way() -> None:
    network, part = classifier().eval(), objective("metafscil", **SMALL)
    assert isinstance(part, MetaFSCILObjective)
    session = image_session()
    assert session.images is not None
    with torch.no_grad():
        part.start(network)
        for parameter in network.backbone.parameters():  # the first stage is taken over after the start
            parameter.mul_(1.5)
        part.every_epoch(network, session.images, session.labels)
    assert part.modulation is not None
    branch = part.modulation.branch.state_dict()
    assert all(torch.equal(branch[name], value) for name, value in network.backbone.state_dict().items())
    with torch.no_grad():
        next(part.modulation.branch.parameters()).add_(1)
        part.every_epoch(network, session.images, session.labels)
    assert not torch.equal(next(part.modulation.branch.parameters()), next(network.backbone.parameters()))
    assert torch.allclose(part.rows.norm(dim=1), torch.ones(CLASSES))


def test_without_modulation_there_is_none() -> None:
    network, part = begun(modulated=False)
    assert part.modulation is None
    loss, _ = part(network, views_for(part), torch.zeros(()))
    loss.backward()
    assert all(parameter.grad is not None for parameter in network.backbone.parameters())


def test_too_few_images_or_classes_are_refused() -> None:
    part, session = objective("metafscil", **{**SMALL, "queries": 15}), image_session()
    with pytest.raises(InputError, match=r"draws 17 different images of a class, and a base class has 16; lower shot"):
        part.every_epoch(nn.Identity(), session.images, session.labels)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="episodes of 60 classes, and the base session has 4"):
        trainer("metafscil")


def test_weights_may_be_others_than_the_networks_own() -> None:
    network, part = begun()
    whole = Modulated(network.backbone, part.modulation)
    twice = {name: 2 * weight for name, weight in weights_of(whole).items()}
    images = views_for(part)[0].images[:3]
    given = features_with(whole, twice, images)
    with torch.no_grad():
        for parameter in network.backbone.parameters():
            parameter.mul_(2)
    assert torch.allclose(given, whole(images), atol=1e-5)

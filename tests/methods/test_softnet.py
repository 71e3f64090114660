"""SoftNet's sessions: minor weights of a late part learn, and nothing else moves."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from test_method_contract import learn
from tiny_benchmark import BASE, CPU, DEPTH, exam_view, prepared, tiny_benchmark
from torch import Tensor

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data import Session
from fscil.methods import make
from fscil.methods.softnet import SoftNet, prototype_loss
from fscil.objectives.softnet import in_a_name, major, maskable
from fscil.training.checkpoint import Classifier

LAST_BLOCK = ("trunk.2.2.conv1.weight", "trunk.2.2.conv2.weight")
LAST_STAGE = tuple(f"trunk.2.{block}.conv{place}.weight" for block in range(3) for place in (1, 2))


def started(**options: Any) -> SoftNet:
    method = make("softnet", {"epochs": 3, "lr": 0.5, **options})
    assert isinstance(method, SoftNet)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def trained(share: float = 0.6, soft: bool = True) -> tuple[Classifier, dict[str, Tensor]]:
    """A small CNN with statistics of its own, and the masks that are in its weights."""
    torch.manual_seed(0)
    network = Classifier(BackboneConfig(kind="resnet20", image_size=8), TrainConfig(head="linear"), BASE)
    masks = {}
    for name, weight in maskable(network.backbone).items():
        minor = torch.rand_like(weight) * soft
        masks[f"masks.{in_a_name(name)}"] = mask = torch.where(major(torch.rand_like(weight), share), 1.0, minor)
        weight.data.mul_(mask)
    for _ in range(9):  # statistics that fit the weights
        network.train().backbone(torch.rand(40, 3, 8, 8))
    return network.eval().requires_grad_(False), masks


def sessions_of(method: SoftNet, network: Classifier, masks: dict[str, Tensor]) -> list[Session]:
    found = prepared(method, tiny_benchmark())
    return [dataclasses.replace(found[0], network=copy.deepcopy(network), extras=masks), *found[1:]]


def mean_directions(network: Classifier, session: Session) -> list[Tensor]:
    assert session.images is not None
    unit = [feature / feature.norm() for feature in network.backbone(session.images)]
    of = [[x for x, label in zip(unit, session.labels, strict=True) if label == c] for c in session.classes]
    return [torch.stack(members).mean(0) for members in of]


def test_classes_are_compared_by_the_cosine_to_their_mean() -> None:
    method = started()
    network, masks = trained()
    sessions = sessions_of(method, network, masks)
    learn(method, sessions[:1])
    view = exam_view(method, tiny_benchmark())
    means = mean_directions(network, sessions[0])
    expected = [
        [float(x @ m / (x.norm() * m.norm())) for m in means]
        for x in network.backbone(view.images)  # type: ignore[arg-type]
    ]
    assert torch.allclose(method.scores(view), torch.tensor(expected), atol=1e-5)


@pytest.mark.parametrize(("part", "names"), [("block", LAST_BLOCK), ("stage", LAST_STAGE), ("all", None)])
def test_only_minor_weights_of_that_part_change(part: str, names: tuple[str, ...] | None) -> None:
    method = started(part=part)
    network, masks = trained()
    learn(method, sessions_of(method, network, masks))
    before, after = network.state_dict(), method.network_.state_dict()
    allowed = {f"backbone.{name}" for name in names or maskable(network.backbone)}
    if part == "stage":
        allowed.add("backbone.trunk.2.0.shortcut.0.weight")
    for name, value in before.items():  # batch-norm's statistics among them
        if name not in allowed:
            assert torch.equal(after[name], value), name
            continue
        minor = masks[f"masks.{in_a_name(name.removeprefix('backbone.'))}"] < 1
        assert torch.equal(after[name][~minor], value[~minor])
        assert (after[name][minor] != value[minor]).float().mean() > 0.9
    assert all(torch.equal(method.masks_[name], masks[f"masks.{in_a_name(name)}"]) for name in method.masks_)


def test_without_minor_weights_nothing_learns() -> None:
    """HardNet: what is not major counts for nothing, and stays so."""
    method = started()
    network, masks = trained(soft=False)
    learn(method, sessions_of(method, network, masks))
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in method.network_.state_dict().items())


def test_old_prototypes_stay_and_new_ones_are_means_after_learning() -> None:
    method = started()
    network, masks = trained()
    sessions = sessions_of(method, network, masks)
    before = torch.empty(0, 64)
    for session in sessions:
        learn(method, [session])
        assert torch.equal(method.prototypes_[: session.classes.start], before[: session.classes.start])
        for row, mean in zip(
            method.prototypes_[session.classes.start :], mean_directions(method.network_, session), strict=True
        ):
            assert torch.allclose(row, mean / mean.norm(), atol=1e-5)
        before = method.prototypes_.clone()


def test_the_loss_and_its_gradient_against_plain_loops() -> None:
    """The means of the batch are not held fixed."""
    generator = torch.Generator().manual_seed(0)
    features, old = torch.randn(7, 5, generator=generator), torch.randn(4, 5, generator=generator)
    labels = torch.tensor([0, 1, 2, 1, 1, 0, 2])
    by_hand, ours = (features.clone().requires_grad_() for _ in range(2))
    unit = [x / x.norm() for x in by_hand]
    means = []
    for c in range(3):
        members = torch.stack([x for x, label in zip(unit, labels, strict=True) if label == c])
        means.append(members.sum(0) / len(members))
    losses = []
    for x, label in zip(unit, labels, strict=True):
        logits = torch.stack([-(1 - x @ p / p.norm()) for p in [*means, *old]])
        losses.append(-logits.log_softmax(0)[label])
    expected, found = sum(losses) / 7, prototype_loss(ours, labels, 3, old)
    assert isinstance(expected, Tensor)
    assert torch.allclose(found, expected, atol=1e-5)
    for loss in (expected, found):
        loss.backward()
    assert ours.grad is not None
    assert torch.allclose(ours.grad, by_hand.grad, atol=1e-5)


def test_a_session_against_a_slow_twin() -> None:
    """SGD on the weights behind the mask, as the paper writes it: theta -= rate * (dL/dtheta * m), where m < 1."""
    method = started(weight_decay=0.05, momentum=0.8)
    network, masks = trained()
    sessions = sessions_of(method, network, masks)
    learn(method, sessions[:2])
    session, twin = sessions[2], copy.deepcopy(method.network_).train()
    for module in twin.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    old = method.prototypes_.clone()
    names = list(LAST_BLOCK)
    mask = {name: masks[f"masks.{in_a_name(name)}"] for name in names}
    theta = {name: twin.backbone.get_parameter(name).detach() / mask[name] for name in names}
    speed = {name: torch.zeros_like(value) for name, value in theta.items()}
    assert session.images is not None
    for _ in range(3):
        leaves = {name: value.clone().requires_grad_() for name, value in theta.items()}
        effective = {name: leaf * mask[name] for name, leaf in leaves.items()}
        features = torch.func.functional_call(twin.backbone, effective, (session.images,))
        prototype_loss(features, session.labels - session.classes.start, len(session.classes), old).backward()
        for name, leaf in leaves.items():
            assert leaf.grad is not None
            minor = mask[name] < 1
            gradient = leaf.grad * mask[name] * minor + 0.05 * theta[name] * minor
            speed[name] = 0.8 * speed[name] + gradient
            theta[name] = theta[name] - 0.5 * speed[name]
    learn(method, [session])
    for name in names:
        assert torch.allclose(method.network_.backbone.get_parameter(name), theta[name] * mask[name], atol=1e-5)


def test_a_network_without_a_mask_is_left_as_it_is_and_its_smallest_weights_learn() -> None:
    method = started(share=0.75)
    network, _ = trained()
    sessions = sessions_of(method, network, {})
    learn(method, sessions[:1])
    assert set(method.masks_) == set(LAST_BLOCK)
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in method.network_.state_dict().items())
    for name, mask in method.masks_.items():
        sizes = network.backbone.get_parameter(name).abs()
        assert float(sizes[mask == 1].min()) >= float(sizes[mask < 1].max())
        assert float((mask == 1).float().mean()) == pytest.approx(0.75, abs=0.001)
        assert 0.45 < float(mask[mask < 1].mean()) < 0.55
    again = started(share=0.75)
    torch.manual_seed(9)
    learn(again, sessions_of(again, network, {})[:1])
    assert all(torch.equal(mask, again.masks_[name]) for name, mask in method.masks_.items())


def test_no_epochs_are_class_means() -> None:
    method, still = started(), started(epochs=0)
    network, masks = trained()
    for each in (method, still):
        learn(each, sessions_of(each, network, masks))
    assert torch.equal(still.prototypes_[:BASE], method.prototypes_[:BASE])
    assert not torch.equal(still.prototypes_, method.prototypes_)
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in still.network_.state_dict().items())


def test_joined_networks_have_no_last_block() -> None:
    method = started()
    (base, *_) = prepared(method, tiny_benchmark())
    parts = tuple(BackboneConfig(kind="resnet20", image_size=8) for _ in range(2))
    joined = Classifier(BackboneConfig(kind="joined", image_size=8, parts=parts), TrainConfig(), BASE).eval()
    with pytest.raises(InputError, match="has no last block"):
        learn(method, [dataclasses.replace(base, network=joined)])

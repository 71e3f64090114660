"""CEC's second stage: the whole loss against the released layout in plain loops, and what an episode is made of."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from small_networks import CLASSES, DIM, SIZE, classifier, objective
from torch import Tensor
from written_out_attention import written_out

from fscil.data.augment import Mixed
from fscil.data.fantasy import transformed
from fscil.objectives.base import Episode, Setting
from fscil.objectives.cec import CECObjective

WAY, SHOT, QUERY = 2, 2, 4


def made() -> CECObjective:
    part = objective("cec", way=WAY, shot=SHOT, query=QUERY)
    assert isinstance(part, CECObjective)
    return part


def episode_view(way: int = WAY, images: int = SHOT + QUERY) -> Mixed:
    """Class-major, as the training loop hands it over; base classes in an order of their own."""
    labels = torch.tensor([2, 0, 3, 1])[:way].repeat_interleave(images)
    pictures = torch.rand(len(labels), 3, SIZE, SIZE, generator=torch.Generator().manual_seed(5))
    return Mixed(pictures, labels, labels, torch.ones(len(labels)))


def quarter_turned(image: Tensor, degrees: int) -> Tensor:
    """As the released code turns a picture (3, h, w)."""
    if degrees == 90:
        return image.transpose(1, 2).flip(1)
    return image.flip(1).flip(2) if degrees == 180 else image.transpose(1, 2).flip(2)


def loss_in_loops(network: torch.nn.Module, part: CECObjective, view: Mixed, angles: tuple[int, ...]) -> Tensor:
    """Supports of all classes first, then queries, class by class inside: plain classes, then turned ones."""
    by_class = view.images.unflatten(0, (WAY, SHOT + QUERY))
    ways = [list(pictures) for pictures in by_class]
    ways += [[quarter_turned(p, angle) for p in pictures] for pictures, angle in zip(by_class, angles, strict=True)]
    features = [[network.backbone(picture[None])[0] for picture in pictures] for pictures in ways]  # type: ignore[operator]
    prototypes = torch.stack([torch.stack(each[:SHOT]).sum(0) / SHOT for each in features])
    losses = []
    for number in range(QUERY):
        for way, each in enumerate(features):
            cosines, _ = written_out(part.graph, prototypes, each[SHOT + number][None])
            losses.append(-(16.0 * cosines[0]).log_softmax(0)[way])
    return torch.stack(losses).mean()


def test_the_whole_loss_and_its_gradients_in_plain_loops() -> None:
    """Angles are drawn in the loss: it must be that of one choice of angles, and every choice must come."""
    network, part, view = classifier(), made(), episode_view()
    slow_network, slow_part = copy.deepcopy(network).double(), copy.deepcopy(part).double()
    slow_view = dataclasses.replace(view, images=view.images.double())
    choices = list(itertools.product((90, 180, 270), repeat=WAY))
    with torch.no_grad():
        expected = torch.stack([loss_in_loops(slow_network, slow_part, slow_view, angles) for angles in choices])
    gaps = (expected[:, None] - expected[None]).abs() + torch.eye(len(choices))
    assert gaps.min() > 1e-4  # so that the loss says which choice it was
    seen = set()
    leaves, slow_leaves = (
        [*n.backbone.parameters(), *p.parameters()] for n, p in ((network, part), (slow_network, slow_part))
    )
    for seed in range(300):
        if len(seen) == len(choices):
            break
        torch.manual_seed(seed)
        loss, _ = part(network, [view], torch.zeros(()))
        found = int((expected - loss).abs().argmin())
        assert loss.item() == pytest.approx(expected[found].item(), abs=2e-5)
        if not seen:
            of_fast = torch.autograd.grad(loss, leaves, allow_unused=True)
            of_loops = torch.autograd.grad(
                loss_in_loops(slow_network, slow_part, slow_view, choices[found]), slow_leaves, allow_unused=True
            )
            for one, other in zip(of_fast, of_loops, strict=True):
                assert (one is None) == (other is None)
                assert one is None or torch.allclose(one.double(), other, atol=2e-5, rtol=1e-3)
            assert sum(grad is not None and bool(grad.abs().max() > 1e-4) for grad in of_fast) > 10
        seen.add(found)
    assert len(seen) == len(choices)


def test_the_angles_are_those_of_the_released_code() -> None:
    image = torch.rand(1, 3, 5, 5)
    for turns, degrees in ((1, 90), (2, 180), (3, 270)):
        assert torch.equal(transformed(image, (turns, 0))[0], quarter_turned(image[0], degrees))


def test_an_episode_as_published_has_thirty_ways_and_450_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    part = CECObjective(CECObjective.Options(), Setting(DIM, 60, 60, 16.0, 0.0))
    assert part.episode() == Episode(15, 16, alone=True)
    seen = {}

    def remember(logits: Tensor, labels: Tensor) -> Tensor:
        seen["logits"], seen["labels"] = tuple(logits.shape), labels
        return logits.sum()

    monkeypatch.setattr("fscil.objectives.cec.F.cross_entropy", remember)
    labels = torch.arange(15).repeat_interleave(16)
    part(classifier(60), [Mixed(torch.rand(240, 3, SIZE, SIZE), labels, labels, torch.ones(240))], torch.zeros(()))
    assert seen["logits"] == (450, 30)
    assert torch.bincount(seen["labels"]).tolist() == [15] * 30


def test_the_head_takes_no_part() -> None:
    network, part = classifier(), made()
    part.start(network)
    loss, plain = part(network, [episode_view()], torch.zeros(()))
    loss.backward()
    assert plain.shape == (WAY * (SHOT + QUERY), CLASSES)
    assert network.head.weight.grad is None
    assert not network.head.weight.requires_grad
    assert part.graph.query.grad is not None


def test_without_output_the_loss_is_that_of_cosines_after_layer_norm() -> None:
    network, part, view = classifier(), made(), episode_view()
    with torch.no_grad():
        part.graph.output.zero_()
        part.graph.bias.zero_()
    loss, _ = part(network, [view], torch.zeros(()))

    def normed(x: Tensor) -> Tensor:
        return F.normalize(x - x.mean(-1, keepdim=True), dim=-1)

    losses = []
    for angles in itertools.product((90, 180, 270), repeat=WAY):
        turned = torch.stack([quarter_turned(p, angles[i // (SHOT + QUERY)]) for i, p in enumerate(view.images)])
        features = network.backbone(torch.cat([view.images, turned])).unflatten(0, (2 * WAY, SHOT + QUERY))
        prototypes, queries = features[:, :SHOT].mean(1), features[:, SHOT:].flatten(0, 1)
        labels = torch.arange(2 * WAY).repeat_interleave(QUERY)
        losses.append(F.cross_entropy(16 * normed(queries) @ normed(prototypes).T, labels).item())
    assert min(abs(loss.item() - other) for other in losses) < 1e-3

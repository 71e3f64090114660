"""LIMIT's second stage: the whole loss as the released code writes it, and the table of classes."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from small_networks import CLASSES, batch, classifier, image_session, objective
from torch import Tensor
from written_out_attention import written_out

from fscil.data.augment import Mixed
from fscil.objectives.base import Episode, Setting
from fscil.objectives.limit import LIMITObjective

WAY, SHOT, UNSEEN, TASKS = 2, 2, 3, 3
TOTAL = CLASSES + UNSEEN


def made(**options: object) -> LIMITObjective:
    part = objective("limit", **{"way": WAY, "shot": SHOT, "unseen": UNSEEN, "tasks": TASKS, **options})
    assert isinstance(part, LIMITObjective)
    with torch.no_grad():
        part.rows.normal_(generator=torch.Generator().manual_seed(8))
    return part


def support_view() -> Mixed:
    labels = torch.tensor([3, 3, 1, 1])
    pictures = torch.rand(len(labels), 3, 8, 8, generator=torch.Generator().manual_seed(6))
    return Mixed(pictures, labels, labels, torch.ones(len(labels)))


def loss_as_released(network: torch.nn.Module, part: LIMITObjective, query: Mixed, support: Mixed) -> Tensor:
    """Masks and matrix products, tokens written out, the query overwritten from task to task."""
    shots = torch.stack([network.backbone(picture[None])[0] for picture in support.images])  # type: ignore[operator]
    queries = torch.stack([network.backbone(picture[None])[0] for picture in query.images])  # type: ignore[operator]
    chosen = support.labels.view(WAY, SHOT)[:, 0]
    few = shots.view(WAY, SHOT, -1).mean(1)
    logits = []
    for _ in range(part.options.tasks):
        kept = torch.eye(TOTAL, dtype=few.dtype)
        kept[:, chosen] = 0
        placed = F.one_hot(chosen, TOTAL).to(few.dtype)
        rows = (part.rows.T @ kept + few.T @ placed).T
        cosines, adapted = written_out(part.calibration, rows, queries)
        if part.options.chain_queries:
            queries = adapted
        logits.append(16.0 * cosines)
    together = torch.cat(logits, 1).view(-1, TOTAL)[:, :CLASSES]
    return F.cross_entropy(together, query.labels.view(-1, 1).repeat(1, part.options.tasks).view(-1))


@pytest.mark.parametrize("chain", [True, False])
def test_the_whole_loss_and_its_gradients_as_the_released_code_writes_it(chain: bool) -> None:
    network, part, views = classifier(), made(chain_queries=chain), [batch(), support_view()]
    slow_network, slow_part = copy.deepcopy(network).double(), copy.deepcopy(part).double()
    loss, plain = part(network, views, torch.zeros(()))
    slow_views = [dataclasses.replace(view, images=view.images.double()) for view in views]
    expected = loss_as_released(slow_network, slow_part, *slow_views)
    assert loss.item() == pytest.approx(expected.item(), abs=2e-5)
    assert torch.allclose(plain, network(views[0].images), atol=1e-5)
    names = [name for name, _ in part.named_parameters()]
    of_fast = torch.autograd.grad(loss, [*part.parameters(), *network.backbone.parameters()], allow_unused=True)
    slow_leaves = [*slow_part.parameters(), *slow_network.backbone.parameters()]
    for one, other in zip(of_fast, torch.autograd.grad(expected, slow_leaves, allow_unused=True), strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one.double(), other, atol=2e-5, rtol=2e-3)
    assert sum(grad is not None and bool(grad.abs().max() > 1e-4) for grad in of_fast) > 10
    rows = of_fast[names.index("rows")]
    assert rows is not None
    replaced = rows.abs().amax(1) == 0
    assert replaced.tolist() == [False, True, False, True, False, False, False]  # rows of classes to come learn


def test_only_chained_tasks_differ() -> None:
    def loss(**options: object) -> float:
        return made(**options)(classifier(), [batch(), support_view()], torch.zeros(()))[0].item()

    assert loss(tasks=1) == loss(tasks=1, chain_queries=False) == loss(tasks=9, chain_queries=False)
    assert abs(loss(tasks=1) - loss(tasks=2)) > 1e-4


def test_the_query_may_keep_its_length() -> None:
    """As the released code has it on miniImageNet and CUB-200: q' times unit w', not the cosine."""
    network, part, views = classifier(), made(tasks=1, unit_query=False), [batch(), support_view()]
    with torch.no_grad():
        few = network.backbone(views[1].images).view(WAY, SHOT, -1).mean(1)
        rows = part.rows.clone()
        rows[[3, 1]] = few
        cosines, adapted = written_out(part.calibration, rows, network.backbone(views[0].images))
        logits = 16.0 * cosines * adapted.norm(dim=1, keepdim=True)
        expected = F.cross_entropy(logits[:, :CLASSES], views[0].labels)
    assert part(network, views, torch.zeros(()))[0].item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_step_as_published() -> None:
    options = LIMITObjective.Options()
    assert (options.way, options.shot, options.tasks, options.chain_queries) == (16, 1, 32, True)
    part = LIMITObjective(options, Setting(64, 60, 60, 16.0, 0.0))
    assert part.episode() == Episode(16, 1)
    assert part.rows.shape == (100, 64)
    assert sum(p.numel() for p in part.calibration.parameters()) == 16_576


def test_every_epoch_base_rows_are_class_means_again() -> None:
    network, part, session = classifier().eval(), made(), image_session()
    before = part.rows.detach().clone()
    assert session.images is not None
    with torch.no_grad():
        part.every_epoch(network, session.images, session.labels)
        for c in range(CLASSES):
            features = [network.backbone(image[None])[0] for image in session.images[session.labels == c]]
            assert torch.allclose(part.rows[c], torch.stack(features).mean(0), atol=1e-5)
    assert torch.equal(part.rows[CLASSES:], before[CLASSES:])


def test_rows_of_classes_to_come_start_where_weight_decay_has_left_them() -> None:
    """SGD with Nesterov's step on a row without a gradient: 100 epochs of 235 steps at 0.1, less at 60 and 70."""
    row, pace = 1.0, 0.0
    for epoch in range(100):
        rate = 0.1 * (0.1 if epoch >= 60 else 1) * (0.1 if epoch >= 70 else 1)
        for _ in range(235):
            slope = 5e-4 * row
            pace = 0.9 * pace + slope
            row -= rate * (slope + 0.9 * pace)
    assert row == pytest.approx(math.exp(-10 * 5e-4 * 235 * (60 * 0.1 + 10 * 0.01 + 30 * 0.001)), rel=0.05)
    assert row < 1e-3
    rows = objective("limit", way=WAY).rows
    assert isinstance(rows, torch.Tensor)
    assert not rows.any()


def test_mixed_images_and_smoothing_count_as_elsewhere() -> None:
    part, view = made(chain_queries=False), batch()
    mixed = Mixed(view.images, view.labels, view.labels.roll(1), torch.full((12,), 0.25))
    swapped = Mixed(view.images, view.labels.roll(1), view.labels, torch.full((12,), 0.75))
    one, other = (part(classifier(), [v, support_view()], torch.zeros(()))[0].item() for v in (mixed, swapped))
    assert one == pytest.approx(other, rel=1e-5)

"""SPPR's base training."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from small_networks import CLASSES, DIM, batch, classifier, objective
from torch import nn

from fscil.core.errors import InputError
from fscil.objectives.sppr import (
    HalfDropout,
    Refinement,
    choose,
    pretend,
    support_means,
    support_rows,
    task_losses,
)


def test_parameter_counts_of_the_released_network() -> None:
    parts = dict(Refinement(60, 512).named_children())
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    assert sum(counts[name] for name in ("query", "key", "value", "output")) == 1_048_576
    assert sum(counts[name] for name in ("of_image", "of_prototype", "compare")) == 70_081


def test_pretended_classes_are_replaced_and_emptied_and_no_other() -> None:
    table, means = torch.rand(6, 3) + 1, torch.rand(6, 3) + 1
    new = torch.tensor([[True, False, False, True, False, False], [False, True, True, False, False, False]])
    replaced, emptied = pretend(table, means, new)
    for task in range(2):
        assert ((emptied[task] == 0).all(1) == new[task]).all()
        assert ((replaced[task] != table).any(1) == new[task]).all()
        assert torch.equal(replaced[task][new[task]], means[new[task]])


def test_without_output_the_refinement_is_the_identity() -> None:
    part = Refinement(4, DIM).eval()
    nn.init.zeros_(part.output.weight)
    rows = torch.randn(4, DIM)
    assert torch.equal(part.refine(rows, torch.randn(3, DIM)), rows)


def test_refinement_against_torchs_attention() -> None:
    part, rows, others = Refinement(4, DIM).eval(), torch.randn(4, DIM), torch.randn(3, DIM)
    pool = torch.cat([rows, others])
    attended = F.scaled_dot_product_attention(part.query(rows)[None], part.key(pool)[None], part.value(pool)[None])[0]
    assert torch.allclose(part.refine(rows, others), rows + part.output(attended), atol=1e-5)


def test_pairs_are_compared_as_if_stacked() -> None:
    """One layer on (image, prototype) side by side, as published, against the two halves that are added here."""
    part = Refinement(4, DIM).eval()
    images, rows = torch.randn(3, DIM), torch.randn(4, DIM)
    logits = part.relate(images, rows)
    whole = torch.cat([part.of_image.weight, part.of_prototype.weight], 1)
    for i in range(3):
        for c in range(4):
            pair = torch.cat([F.normalize(images[i], dim=0), F.normalize(rows[c], dim=0)])
            expected = part.compare((whole @ pair + part.of_image.bias)[None])[0, 0]
            assert logits[i, c].item() == pytest.approx(expected.item(), abs=1e-5)


def test_support_is_never_more_than_half_of_a_class() -> None:
    labels = torch.tensor([0] * 12 + [1] * 3 + [2])
    support = support_rows(labels, shot=5)
    assert [int(support[labels == c].sum()) for c in range(3)] == [5, 1, 0]
    features = torch.rand(16, 3)
    means, fit = support_means(features, labels, support, 4)
    assert fit.tolist() == [True, True, False, False]
    assert torch.allclose(means[0], features[(labels == 0) & support].mean(0))


def test_only_fit_classes_are_chosen() -> None:
    fit = torch.tensor([True, False, True, True, False, True])
    chosen = choose(fit, way=2, tasks=50)
    assert (chosen.sum(1) == 2).all()
    assert not chosen[:, ~fit].any()
    assert chosen[:, fit].any(0).all()
    assert choose(torch.tensor([True, False, False]), way=2, tasks=1).sum() == 1  # no more are fit


def test_every_task_asks_about_the_same_images() -> None:
    logits, view = torch.randn(3, 12, CLASSES), batch()
    losses = task_losses(logits, view)
    assert losses.shape == (3, 12)
    assert torch.allclose(losses[1], F.cross_entropy(logits[1], view.labels, reduction="none"))
    mixed = dataclasses.replace(view, others=view.labels.roll(1), share=torch.full((12,), 0.25))
    other = F.cross_entropy(logits[0], mixed.others, reduction="none")
    expected = 0.25 * F.cross_entropy(logits[0], view.labels, reduction="none") + 0.75 * other
    assert torch.allclose(task_losses(logits, mixed)[0], expected, atol=1e-6)


def test_a_plain_head_learns_and_changes_the_features_only_where_asked() -> None:
    for weight, reaches in ((0.0, False), (1.0, True)):
        part, network, view = objective("sppr", way=2, weight_head=weight), classifier(), batch()
        _, logits = part(network, [view], torch.zeros(()))
        logits.sum().backward()
        assert network.head.weight.grad is not None
        assert any(p.grad is not None for p in network.backbone.parameters()) == reaches


def test_half_dropout_drops_half_and_keeps_the_mean() -> None:
    x = torch.ones(1001, 99)
    dropped = HalfDropout().train()(x)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)
    assert torch.equal(HalfDropout().eval()(x), x)


def test_more_new_classes_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="way must be from 1 to 3"):
        objective("sppr", way=4)

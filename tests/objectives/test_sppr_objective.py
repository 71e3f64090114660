"""SPPR's base training: its parts, and its whole loss against loops."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from small_networks import CLASSES, DIM, SIZE, batch, classifier, objective, views_for
from torch import Tensor, nn

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives import sppr
from fscil.objectives.base import Episode
from fscil.objectives.sppr import HalfDropout, Refinement, pretend, some_of
from fscil.training.checkpoint import Classifier
from fscil.training.optimizer import learning_rate


def test_parameter_counts_of_the_released_network() -> None:
    parts = dict(Refinement(60, 512).named_children())
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    assert sum(counts[name] for name in ("query", "key", "value", "output")) == 1_048_576
    assert sum(counts[name] for name in ("of_image", "of_prototype", "compare")) == 70_081


def test_first_weights_of_the_released_network() -> None:
    """Attention: normal, sqrt(2 / (512 + 512)). Pairs: one layer of 1024 inputs, uniform up to 1 / sqrt(1024)."""
    torch.manual_seed(0)
    part = Refinement(60, 512)
    assert not part.table.any()
    for matrix in (part.query, part.key, part.value, part.output):
        assert matrix.weight.std().item() == pytest.approx(0.0441942, rel=0.01)
        assert matrix.weight.abs().max() > 4 * 0.0442  # normal, not uniform
    for half in (part.of_image.weight, part.of_prototype.weight, part.of_image.bias):
        assert 0.97 * 0.03125 < half.abs().max() <= 0.03125
    for layer in (part.compare[3], part.compare[7]):  # of 64 inputs
        assert 0.9 * 0.125 < layer.weight.abs().max() <= 0.125


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


def test_every_task_takes_another_choice_of_the_classes_with_shots() -> None:
    torch.manual_seed(0)
    names = torch.tensor([7, 2, 9, 4])
    chosen = some_of(names, way=2, tasks=300, classes=12)
    assert chosen.shape == (300, 12)
    assert (chosen.sum(1) == 2).all()
    counts = chosen.sum(0)
    assert counts.nonzero().flatten().tolist() == [2, 4, 7, 9]
    assert counts[names].min() > 100  # of 150


def test_the_shots_of_a_step_are_five_of_three_classes_more_than_pretend() -> None:
    torch.manual_seed(0)
    options = sppr.SPPRObjective.Options()
    setting = sppr.Setting(8, 60, 60, 16.0, 0.0)
    assert sppr.SPPRObjective(options, setting).episode() == Episode(8, 5)
    assert objective("sppr", way=3).episode() == Episode(CLASSES, 5)  # no more than there are


def unscaled_dropout(part: sppr.SPPRObjective, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is dropped, but batch-norm is in training mode as ever."""
    part.refinement.drop.p = 0.0
    monkeypatch.setattr(HalfDropout, "forward", lambda _, x: x)


def resnet() -> Classifier:
    torch.manual_seed(0)
    network = BackboneConfig(kind="resnet20", image_size=SIZE)
    return Classifier(network, TrainConfig(), CLASSES)


def shots_of(names: list[int], shot: int) -> Mixed:
    generator = torch.Generator().manual_seed(7)
    labels = torch.tensor(names).repeat_interleave(shot)
    images = torch.rand(len(labels), 3, SIZE, SIZE, generator=generator)
    return Mixed(images, labels, labels, torch.ones(len(labels)))


def cross_entropy_by_hand(logits: list[Tensor], label: int) -> Tensor:
    return torch.stack(logits).exp().sum().log() - logits[label]


def length(x: Tensor) -> Tensor:
    return (x * x).sum().sqrt()


def relate_by_hand(part: Refinement, features: Tensor, rows: list[Tensor]) -> list[list[Tensor]]:
    """All pairs of a task as one batch of the small network, layer by layer."""
    first = torch.cat([part.of_image.weight, part.of_prototype.weight], 1)
    pairs = torch.stack([torch.cat([f / length(f), r / length(r)]) for f in features for r in rows])
    hidden = pairs @ first.T + part.of_image.bias
    for norm, layer in ((0, 3), (4, 7)):
        bn, linear = part.compare[norm], part.compare[layer]
        middle, spread = hidden.mean(0), hidden.var(0, unbiased=False)
        hidden = (bn.weight * (hidden - middle) / (spread + 1e-5).sqrt() + bn.bias).clamp(min=0)
        hidden = hidden @ linear.weight.T + linear.bias
    return [list(row) for row in hidden[:, 0].view(len(features), len(rows))]


def twin(network: Classifier, part: Refinement, batch: Mixed, shots: Mixed, new: list[list[int]], shot: int) -> Tensor:
    """The loss as the authors' code counts it, task by task, row by row."""
    shown = network.backbone(shots.images)
    features = network.backbone(batch.images)
    means = {int(shots.labels[k]): shown[k : k + shot].sum(0) / shot for k in range(0, len(shown), shot)}
    losses = []
    for task in new:
        rows = [means[c] if c in task else part.table[c] for c in range(CLASSES)]
        pool = rows + [torch.zeros(64) if c in task else part.table[c] for c in range(CLASSES)]
        refined = []
        for row in rows:
            products = torch.stack([(part.query.weight @ row) @ (part.key.weight @ other) for other in pool])
            weights = (products / math.sqrt(64)).exp()
            mixed = sum(w * (part.value.weight @ other) for w, other in zip(weights / weights.sum(), pool, strict=True))
            refined.append(row + part.output.weight @ mixed)
        logits = relate_by_hand(part, features, refined)
        losses += [cross_entropy_by_hand(row, int(y)) for row, y in zip(logits, batch.labels, strict=True)]
    return torch.stack(losses).mean()


def plain_twin(network: Classifier, batch: Mixed, *, detached: bool) -> Tensor:
    features = network.backbone(batch.images)
    losses = []
    for f, y in zip(features.detach() if detached else features, batch.labels, strict=True):
        logits = [16 * (f @ w) / length(f) / length(w) for w in network.head.weight]
        losses.append(cross_entropy_by_hand(logits, int(y)))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_whole_loss_and_its_gradients_against_loops(weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    network = resnet()
    part = objective("sppr", dim=64, way=2, shot=3, tasks=3, weight_head=weight)
    assert isinstance(part, sppr.SPPRObjective)
    unscaled_dropout(part, monkeypatch)
    nn.init.normal_(part.refinement.table)  # later in training it is not zero
    new = [[0, 3], [1, 3], [3, 2]]
    asked: list[object] = []

    def chosen(names: Tensor, *counts: int) -> Tensor:
        asked.extend([names.tolist(), *counts])
        return torch.tensor([[c in task for c in range(CLASSES)] for task in new])

    monkeypatch.setattr(sppr, "some_of", chosen)
    view, shots = batch(6), shots_of([3, 0, 1, 2], 3)
    network.train()
    loss, logits = part(network, [view, shots], torch.zeros(()))
    assert asked == [[3, 0, 1, 2], 2, 3, CLASSES]
    trained = [*network.parameters(), *part.parameters()]
    got = torch.autograd.grad(loss, trained)
    expected = twin(network, part.refinement, view, shots, new, 3)
    expected = expected + (weight or 1.0) * plain_twin(network, view, detached=not weight)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(got, torch.autograd.grad(expected, trained), strict=True):
        assert (mine - theirs).norm() < 1e-3 * theirs.norm() + 1e-5
    assert torch.allclose(logits, network.head(network.backbone(view.images)), atol=1e-4)


def test_features_learn_from_the_published_loss_alone_unless_the_head_is_weighed() -> None:
    for weight, reaches in ((0.0, False), (1.0, True)):
        part, network, view = objective("sppr", way=2, weight_head=weight), classifier(), batch()
        shots = Mixed(*(x[:12] for x in (view.images, torch.arange(4).repeat_interleave(3), view.others, view.share)))
        part = objective("sppr", way=2, shot=3, weight_head=weight)
        _, logits = part(network, [view, shots], torch.zeros(()))
        logits.sum().backward()
        assert network.head.weight.grad is not None
        assert any(p.grad is not None for p in network.backbone.parameters()) == reaches


def test_a_mixed_image_counts_for_both_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    network, part = resnet(), objective("sppr", dim=64, way=2, shot=3)
    assert isinstance(part, sppr.SPPRObjective)
    unscaled_dropout(part, monkeypatch)
    monkeypatch.setattr(sppr, "some_of", lambda *_: torch.tensor([[True, True, False, False]] * 3))
    view, shots = batch(6), shots_of([0, 1, 2, 3], 3)
    others = view.labels.roll(1)

    def loss(share: float, labels: Tensor, others: Tensor) -> float:
        mixed = dataclasses.replace(view, labels=labels, others=others, share=torch.full((6,), share))
        return part(network, [mixed, shots], torch.zeros(()))[0].item()

    one, other = loss(1.0, view.labels, view.labels), loss(1.0, others, others)
    assert loss(0.25, view.labels, others) == pytest.approx(0.25 * one + 0.75 * other, rel=1e-5)


def test_pairs_are_compared_in_full_precision() -> None:
    part, network, seen = objective("sppr", way=2), classifier(), []
    assert isinstance(part, sppr.SPPRObjective)
    for layer in (part.refinement.query, part.refinement.compare):
        layer.register_forward_hook(lambda _, __, out: seen.append(out.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        part(network, views_for(part), torch.zeros(()))
    assert seen == [torch.float32] * 4


def test_half_dropout_drops_half_and_keeps_the_mean() -> None:
    x = torch.ones(1001, 99)
    dropped = HalfDropout().train()(x)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)
    assert torch.equal(HalfDropout().eval()(x), x)


def test_what_is_dropped_where() -> None:
    """A tenth of the attention and of what it adds, half of what the small network holds."""
    part = Refinement(4, DIM)
    assert part.drop.p == 0.1
    nn.init.zeros_(part.output.weight)
    assert [type(layer) for layer in part.compare].count(HalfDropout) == 2
    rows = torch.randn(4, DIM)
    assert torch.equal(part.refine(rows, rows), rows)  # the row itself is never dropped


def test_more_new_classes_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="way must be from 1 to 3"):
        objective("sppr", way=4)


def test_turned_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"train\.augment\.turn to 0"):
        objective("sppr", outputs=16, way=2)


def test_the_recipe_is_the_authors_script() -> None:
    """Values of `train.sh` and of the code it runs; 56 epochs of 234 whole batches."""
    config = configs.load("cifar100_sppr")
    train, augment = config.train, config.train.augment
    assert (train.lr, train.min_lr, train.warmup_epochs, train.momentum, train.weight_decay) == (0.1, 0, 0, 0, 5e-4)
    assert (train.epochs, train.batch_size, train.decay, train.ema, train.clip) == (56, 128, "all", 0, 0)
    assert (augment.crop_scale, augment.flip, augment.brightness) == (0.08, 0.5, pytest.approx(63 / 255))
    assert config.backbone.test_zoom == pytest.approx(256 / 224)
    assert objective("sppr", **{**train.objective_options, "way": 3}).options.weight_head == 0
    total = 56 * 234
    rates = [learning_rate(step, total, 0, train.lr, train.min_lr) for step in (0, total // 4, total // 2, total - 1)]
    assert rates == pytest.approx([0.1, 0.0853553, 0.05, 1.4370e-9], rel=1e-4)

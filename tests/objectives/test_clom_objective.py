"""CLOM's base training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_networks import DIM, SIZE, batch, classifier, objective
from torch import Tensor

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.objectives.base import Objective, Setting
from fscil.objectives.clom import CLOMObjective, ExtraBranch
from fscil.training.checkpoint import Classifier
from fscil.training.optimizer import learning_rate


@torch.no_grad()
def new_epoch(part: Objective, network: Classifier) -> None:
    part.every_epoch(network, torch.empty(0), torch.empty(0))


@pytest.mark.parametrize(("dim", "width", "count"), [(64, 256, 16_896), (512, 4096, 2_105_344), (512, 8192, 4_210_688)])
def test_parameter_counts_of_the_paper(dim: int, width: int, count: int) -> None:
    assert sum(p.numel() for p in ExtraBranch(dim, width).parameters()) == count


def test_without_margins_it_is_two_plain_losses() -> None:
    part, network = (
        objective("clom", width=8, average=0, alike=0, extra_average=0, extra_alike=0, weight=0.5),
        classifier(),
    )
    view = batch()
    loss, logits = part(network, [view], torch.zeros(()))
    features = network.backbone(view.images)
    extra = part.head(part.branch(features))
    expected = F.cross_entropy(network.head(features), view.labels) + 0.5 * F.cross_entropy(extra, view.labels)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(logits, network.head(features))


def test_the_features_have_it_easier_and_the_branch_harder() -> None:
    def loss(**margins: float) -> float:
        plain = {"average": 0.0, "alike": 0.0, "extra_average": 0.0, "extra_alike": 0.0}
        part, network = objective("clom", width=8, **{**plain, **margins}), classifier()
        new_epoch(part, network)
        return part(network, [batch()], torch.zeros(()))[0].item()

    assert loss(average=-0.2, alike=-0.2) < loss() < loss(extra_average=0.2, extra_alike=0.2)


def length(x: Tensor) -> Tensor:
    return (x * x).sum().sqrt()


def relations(rows: Tensor) -> list[list[float]]:
    return [[float(a @ b / length(a) / length(b)) for b in rows] for a in rows]


def margin_loss(
    features: Tensor, rows: Tensor, related: list[list[float]], labels: list[int], *margins: float
) -> Tensor:
    """Cross-entropy with a margin on each rival, by how alike the two classes are: the released formula, in loops."""
    average, alike = margins
    count, losses = len(rows), []
    mean = (sum(map(sum, related)) - count) / (count * count - count)
    for f, y in zip(features, labels, strict=True):
        logits = []
        for c in range(count):
            margin = average + (alike - average) / (1.0 - mean) * (related[y][c] - mean) if c != y else 0.0
            logits.append(16 * (f @ rows[c] / length(f) / length(rows[c]) + margin))
        losses.append(torch.stack(logits).exp().sum().log() - logits[y])
    return torch.stack(losses).mean()


def wide_by_hand(part: CLOMObjective, features: Tensor) -> Tensor:
    hidden, norm = features @ part.branch.linear.weight.T, part.branch.norm
    hidden = norm.weight * (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + 1e-5).sqrt() + norm.bias
    return torch.where(hidden > 0, hidden, 0.1 * hidden)


def test_the_whole_loss_and_its_gradients_against_loops() -> None:
    network, part, view = classifier(), objective("clom", width=8, weight=0.6), batch()
    assert isinstance(part, CLOMObjective)
    with torch.no_grad():
        part.start(network)
    new_epoch(part, network)
    plain, extra = relations(network.head.weight.detach()), relations(part.head.weight.detach())
    with torch.no_grad():
        for p in (*network.parameters(), *part.parameters()):  # in the middle of an epoch: relations stay those
            p.add_(0.1 * torch.randn_like(p))
    loss, logits = part(network, [view], torch.zeros(()))
    trained = [*network.parameters(), *part.parameters()]
    got = torch.autograd.grad(loss, trained)
    features, labels = network.backbone(view.images), view.labels.tolist()
    expected = margin_loss(features, network.head.weight, plain, labels, -0.2, -0.5)
    wide = wide_by_hand(part, features)
    expected = expected + 0.6 * margin_loss(wide, part.head.weight, extra, labels, 0.1, 0.2)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(got, torch.autograd.grad(expected, trained), strict=True):
        assert (mine - theirs).norm() < 1e-3 * theirs.norm() + 1e-6
    assert torch.allclose(logits, network(view.images), atol=1e-5)  # without margins


def test_first_weights_of_the_released_network() -> None:
    """The branch's matrix is (features, width) there, so torch counts its width as inputs: uniform to 1 / sqrt(256)."""
    torch.manual_seed(0)
    network = Classifier(BackboneConfig(kind="resnet20", image_size=SIZE), TrainConfig(), 60)
    part = CLOMObjective(CLOMObjective.Options(), Setting(64, 60, 60, 16.0, 0.0))
    with torch.no_grad():
        part.start(network)
    assert 0.97 * 0.0625 < part.branch.linear.weight.abs().max() <= 0.0625
    assert 0.97 * 0.125 < network.head.weight.abs().max() <= 0.125  # linear layers of 64 inputs
    assert 0.97 * 0.0625 < part.head.weight.abs().max() <= 0.0625  # and of 256


def test_the_recipe_is_the_authors_command() -> None:
    config = configs.load("cifar100_clom")
    train, augment = config.train, config.train.augment
    assert (train.lr, train.warmup_epochs, train.momentum, train.nesterov) == (0.1, 0, 0.9, True)
    assert (train.epochs, train.batch_size, train.weight_decay, train.decay) == (100, 128, 5e-4, "all")
    assert (train.milestones, train.gamma, train.ema, train.clip, train.logit_scale) == ((60, 70), 0.1, 0, 0, 16)
    assert (augment.flip, augment.border, augment.translate) == (0.5, "black", 4.5 / 32)
    o = objective("clom", **train.objective_options).options
    assert (o.width, o.weight, o.average, o.alike, o.extra_average, o.extra_alike) == (256, 1, -0.2, -0.5, 0.1, 0.2)
    drops = [60 * 234, 70 * 234]
    rates = [learning_rate(step, 23_400, 0, 0.1, 0, drops, 0.1) for step in (0, 14_039, 14_040, 16_379, 16_380, 23_399)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_branch_teaches_the_backbone_too() -> None:
    part, network = objective("clom", width=8), classifier()
    network.head.requires_grad_(False)
    features = network.backbone(batch().images)
    part.head(part.branch(features)).logsumexp(1).sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in network.backbone.parameters())


def test_a_branch_from_its_tensors_is_the_branch_in_eval_mode() -> None:
    branch = ExtraBranch(DIM, 8)
    branch(torch.randn(32, DIM))  # moves the running statistics
    x = torch.randn(5, DIM)
    rebuilt = ExtraBranch.of(branch.state_dict())
    expected = F.leaky_relu(
        (x @ branch.linear.weight.T - branch.norm.running_mean) / (branch.norm.running_var + 1e-5).sqrt(), 0.1
    )
    assert torch.allclose(rebuilt(x), expected, atol=1e-5)


def test_no_width_is_refused() -> None:
    with pytest.raises(InputError, match="width"):
        objective("clom", width=0)

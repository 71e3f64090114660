"""CLOM's base training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_networks import DIM, batch, classifier, objective

from fscil.core.errors import InputError
from fscil.objectives.clom import ExtraBranch


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
        part = objective("clom", width=8, **{**plain, **margins})
        return part(classifier(), [batch()], torch.zeros(()))[0].item()

    assert loss(average=-0.2, alike=-0.2) < loss() < loss(extra_average=0.2, extra_alike=0.2)


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

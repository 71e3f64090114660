"""S3C's base training."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from small_networks import DIM, batch, classifier, objective

from fscil.core.errors import InputError
from fscil.objectives.s3c import TokenAttention, stochastic_weights


def test_noise_starts_at_the_papers_deviation() -> None:
    drawn = stochastic_weights(torch.zeros(400, 500), torch.zeros(400, 500), torch.Generator().manual_seed(0))
    assert float(drawn.std()) == pytest.approx(0.01815, rel=0.01)


def test_one_token_attention_is_a_linear_residual_with_layer_norm() -> None:
    block, x = TokenAttention(DIM).eval(), torch.randn(6, DIM)
    expected = F.layer_norm(x + x @ block.value.weight.T @ block.output.weight.T + block.output.bias, (DIM,))
    assert torch.allclose(block(x), expected, atol=1e-5)
    assert torch.equal(block(x), block(x))


def test_against_torchs_attention_with_one_token() -> None:
    block, x = TokenAttention(DIM).eval(), torch.randn(6, DIM)
    torchs = torch.nn.MultiheadAttention(DIM, 1, bias=False, batch_first=True).eval()
    with torch.no_grad():
        torchs.in_proj_weight[2 * DIM :] = block.value.weight
        torchs.out_proj.weight.copy_(block.output.weight)
    attended = torchs(x[:, None], x[:, None], x[:, None])[0][:, 0] + block.output.bias
    assert torch.allclose(block(x), block.norm(x + attended), atol=1e-5)


def test_dropout_works_in_training_only_and_follows_the_generator() -> None:
    block, x = TokenAttention(DIM).train(), torch.randn(6, DIM)
    seeds = [torch.Generator().manual_seed(seed) for seed in (0, 0, 1)]
    first, again, other = [block(x, generator) for generator in seeds]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_loss_is_over_classes_and_turns_with_the_noise_on() -> None:
    part, network = objective("s3c", outputs=16), classifier(outputs=16)
    assert part.sigma.shape == (16, DIM)
    part.attention.eval()
    view = dataclasses.replace(batch(), labels=torch.arange(12), others=torch.arange(12))
    with torch.no_grad():
        part.sigma.fill_(-100.0)  # no noise left
        loss, logits = part(network, [view], torch.zeros(()))
        tokens = part.attention(network.backbone(view.images))
    assert torch.allclose(logits, network.head(tokens), atol=1e-4)
    assert loss.item() == pytest.approx(F.cross_entropy(network.head(tokens), view.labels).item(), rel=1e-4)


def test_another_head_is_refused() -> None:
    broken = classifier()
    broken.head = torch.nn.Linear(DIM, 4)
    with pytest.raises(InputError, match=r"train\.head to cosine"):
        objective("s3c")(broken, [batch()], torch.zeros(()))

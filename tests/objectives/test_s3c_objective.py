"""S3C's base training."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from slow_twins import cosine, remember, same_loss_and_gradients, surprise
from small_networks import CLASSES, DIM, batch, classifier, objective
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives.s3c import TokenAttention, stochastic_weights


def test_noise_starts_at_the_papers_deviation() -> None:
    drawn = stochastic_weights(torch.zeros(400, 500), torch.zeros(400, 500), torch.Generator().manual_seed(0))
    assert float(drawn.std()) == pytest.approx(math.log(1 + math.exp(-4)), rel=0.01)  # softplus(-4) = 0.01815


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


def test_dropout_drops_a_tenth_of_tokens_and_half_of_what_is_added() -> None:
    torch.manual_seed(0)
    block = TokenAttention(64).train()
    torch.nn.init.eye_(block.value.weight)
    torch.nn.init.eye_(block.output.weight)
    torch.nn.init.zeros_(block.output.bias)
    block.norm = torch.nn.Identity()  # type: ignore[assignment]
    added = block(torch.ones(4000, 64)) - 1
    alive = (added != 0).any(1)
    assert float(alive.float().mean()) == pytest.approx(0.9, abs=0.02)  # the weight of the one token is 0 or 1 / 0.9
    assert float((added[alive] != 0).float().mean()) == pytest.approx(0.5, abs=0.01)
    assert added[alive].unique().tolist() == pytest.approx([0.0, 1 / 0.9 / 0.5])


def test_first_weights_are_the_published_ones() -> None:
    part = objective("s3c", dim=400, turns=4)
    for weight in (part.attention.value.weight.detach(), part.attention.output.weight.detach()):
        assert float(weight.std()) == pytest.approx(math.sqrt(2 / (400 + 400)), rel=0.02)
        assert float(weight.abs().max()) > 3.5 * math.sqrt(2 / 800)  # normal: a uniform one ends at 1.7 deviations
    assert float(part.mu.detach().std()) == pytest.approx(0.01, rel=0.05)
    assert not part.sigma.any()
    # Without the query and key maps, which cannot change what one token gives: 16,576 with them.
    assert sum(p.numel() for p in TokenAttention(64).parameters()) == 64 * 64 * 2 + 64 + 128


@pytest.mark.parametrize("turns", [1, 4])
def test_the_whole_loss_against_a_slow_twin(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Image by image, turn by turn, with the noise and the dropout that were drawn."""
    outputs = CLASSES if turns == 4 else 4 * CLASSES  # augment.turn makes labels of turned classes itself
    part, network = objective("s3c", outputs=outputs, turns=turns), classifier(outputs)
    torch.nn.init.normal_(part.sigma, std=2.0)
    torch.nn.init.normal_(part.mu)
    generator = torch.Generator().manual_seed(3)
    labels, others = torch.randint(outputs, (2, 6), generator=generator)
    view = Mixed(batch(6).images, labels, others, torch.rand(6, generator=generator))
    noise, kept = remember(monkeypatch, "randn"), remember(monkeypatch, "rand")
    loss, logits = part(network, [view], torch.zeros(()))
    assert [tuple(each.shape) for each in (*noise, *kept)] == [(4 * CLASSES, DIM), (6 * turns, 1), (6 * turns, DIM)]
    rows = [mu + (1 + (s - 4).exp()).log() * e for mu, s, e in zip(part.mu, part.sigma, noise[0], strict=True)]
    block, total, probe = part.attention, [], []

    def mixed(scores: list[Tensor], number: int, turn: int = 0) -> Tensor:
        one, other = int(labels[number]) + outputs * turn, int(others[number]) + outputs * turn
        return view.share[number] * surprise(scores, one) + (1 - view.share[number]) * surprise(scores, other)

    for number, image in enumerate(view.images.numpy()):
        for turn in range(turns):
            turned = torch.tensor(np.rot90(image, turn, (1, 2)).copy())
            feature = network.backbone(turned[None])[0]
            place = turns * number + turn  # the turns of an image lie side by side
            value = (block.value.weight @ feature) * (kept[0][place] >= 0.1) / 0.9
            added = (block.output.weight @ value + block.output.bias) * (kept[1][place] >= 0.5) / 0.5
            x = feature + added
            token = (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt() * block.norm.weight + block.norm.bias
            total.append(mixed([16 * cosine(token, row) for row in rows], number, turn))
            if turn == 0:
                plain = [16 * cosine(feature.detach(), row) for row in network.head.weight]
                assert torch.allclose(torch.stack(plain), logits[number], atol=1e-4)
                probe.append(mixed(plain, number))
    twin = torch.stack(total).mean() + torch.stack(probe).mean()
    same_loss_and_gradients(loss, twin, [*network.parameters(), *part.parameters()])


def test_rows_are_counted_turn_by_turn() -> None:
    """A network that sees nothing but the corner that is bright: turn r of class y goes to row y + classes * r."""
    part = objective("s3c", turns=4)
    corner = torch.zeros(CLASSES, 3, 8, 8)
    corner[:, :, :4, :4] = 1
    labels = torch.arange(CLASSES)
    turned = part._turned(Mixed(corner, labels, labels.flip(0), torch.rand(CLASSES)))
    assert turned.labels.tolist() == [y + CLASSES * r for y in range(CLASSES) for r in range(4)]
    assert turned.others.tolist() == [y + CLASSES * r for y in reversed(range(CLASSES)) for r in range(4)]
    bright = [(0, 0), (4, 0), (4, 4), (0, 4)]  # a quarter turn to the left after the other
    for number in range(4 * CLASSES):
        top, left = bright[number % 4]
        assert turned.images[number, :, top : top + 4, left : left + 4].min() == 1
    assert torch.equal(turned.share[::4], turned.share[3::4])


def test_turning_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"set train\.augment\.turn to 0"):
        objective("s3c", outputs=16, turns=4)
    with pytest.raises(InputError, match="turns must be"):
        objective("s3c", turns=2)


def test_the_probe_does_not_shape_the_features() -> None:
    part, network = objective("s3c", turns=4), classifier()
    part.attention.eval()
    torch.nn.init.zeros_(part.attention.norm.weight)  # the classifier has nothing left to say to the backbone
    part(network, [dataclasses.replace(batch())], torch.zeros(()))[0].backward()
    assert all(p.grad is None or float(p.grad.norm()) < 1e-6 for p in network.backbone.parameters())
    assert network.head.weight.grad is not None
    assert network.head.weight.grad.any()

"""SoftNet's masks: how many weights are major, what the others count by, where gradients go, and what is kept."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_networks import DIM, SIZE, batch, classifier, objective, trainer
from torch import Tensor, nn

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.objectives.softnet import SoftNetObjective, in_a_name, major, maskable
from fscil.training.checkpoint import Classifier, load_classifier

OPTIONS = "train.objective_options={share=0.6}"


def started(network: Any, **options: object) -> SoftNetObjective:
    part = objective("softnet", **options)
    assert isinstance(part, SoftNetObjective)
    with torch.no_grad():
        part.start(network)
    return part


def resnet() -> Classifier:
    torch.manual_seed(0)
    return Classifier(BackboneConfig(kind="resnet20", image_size=SIZE), TrainConfig(head="linear"), 4)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.8, 0.97, 1.0])
@pytest.mark.parametrize("shape", [(7, 3, 3, 3), (16, 48), (1, 5)])
def test_the_largest_scores_of_a_layer_are_major_whatever_their_sign(share: float, shape: tuple[int, ...]) -> None:
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = major(scores, share)
    wanted, count = int(found.sum()), scores.numel()
    assert abs(wanted - share * count) <= 1
    assert wanted >= 1
    largest = sorted(range(count), key=lambda place: -abs(float(scores.flatten()[place])))[:wanted]
    assert {int(place) for place in torch.nonzero(found.flatten())} == set(largest)


def test_what_a_mask_lies_on() -> None:
    """Kernels and matrices of the network; neither norms, biases and tokens nor the head."""
    vit, cnn = maskable(classifier().backbone), maskable(resnet().backbone)
    blocks = [f"trunk.blocks.{block}.{part}.weight" for block in (0, 1) for part in ("attn.qkv", "attn.proj")]
    blocks += [f"trunk.blocks.{block}.mlp.{part}.weight" for block in (0, 1) for part in ("fc1", "fc2")]
    assert set(vit) == {"trunk.patch_embed.proj.weight", *blocks}
    assert len(cnn) == 1 + 18 + 2  # the stem, nine blocks of two, and two shortcuts
    assert all(weight.ndim == 4 for weight in cnn.values())


def by_hand(network: Any, part: SoftNetObjective, drawn: list[Tensor]) -> tuple[Any, list[Tensor]]:
    """A copy of the network with the masks in its weights, and the masks: row by row, number by number."""
    twin, masks = copy.deepcopy(network), []
    for (name, weight), minor in zip(maskable(twin.backbone).items(), drawn, strict=True):
        sizes = [abs(float(v)) for v in part.scores[in_a_name(name)].detach().flatten()]
        place = round((1 - part.options.share) * (len(sizes) - 1))
        threshold = sorted(sizes)[place]
        values = [1.0 if size >= threshold else float(m) for size, m in zip(sizes, minor.flatten(), strict=True)]
        masks.append(torch.tensor(values).view(weight.shape))
        weight.data.mul_(masks[-1])
    return twin, masks


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("make", [classifier, resnet])
def test_loss_and_gradients_against_a_slow_twin(make: Any, soft: bool) -> None:
    """The gradient of a score is that of its place in the mask; that of a weight is what its mask lets through."""
    network, shown = make(), batch()
    part = started(network, share=0.6, soft=soft)
    torch.manual_seed(5)
    drawn = [torch.rand_like(weight) for weight in maskable(network.backbone).values()]
    twin, masks = by_hand(network, part, drawn if soft else [torch.zeros_like(each) for each in drawn])
    twin.train()
    logits = twin(shown.images)
    expected = sum(-torch.log_softmax(row, 0)[label] for row, label in zip(logits, shown.labels, strict=True)) / 12
    expected.backward()
    torch.manual_seed(5)
    network.train()
    loss, given = part(network, [shown], torch.zeros(()))
    loss.backward()
    assert torch.allclose(given, logits, atol=1e-5)
    assert torch.allclose(loss, expected, atol=1e-5)
    before = maskable(network.backbone)
    for (name, effective), mask in zip(maskable(twin.backbone).items(), masks, strict=True):
        weight, score = before[name], part.scores[in_a_name(name)]
        assert torch.allclose(weight.grad, effective.grad * mask, atol=1e-5)  # type: ignore[arg-type, operator]
        assert torch.allclose(score.grad, effective.grad * weight.detach(), atol=1e-5)  # type: ignore[arg-type, operator]
    for one, two in zip(network.head.parameters(), twin.head.parameters(), strict=True):
        assert torch.allclose(one.grad, two.grad, atol=1e-5)  # type: ignore[arg-type]


def test_minor_weights_are_drawn_anew_in_every_step_or_are_none() -> None:
    network = classifier()
    soft, hard = (started(network, soft=soft) for soft in (True, False))
    soft_losses = {float(soft(network, [batch()], torch.zeros(()))[0]) for _ in range(3)}
    hard_losses = {float(hard(network, [batch()], torch.zeros(()))[0]) for _ in range(3)}
    assert (len(soft_losses), len(hard_losses)) == (3, 1)


@pytest.mark.parametrize("ema", ["0", "0.5"])
@pytest.mark.parametrize("soft", ["true", "false"])
def test_one_mask_is_kept_and_is_in_the_weights(ema: str, soft: str, tmp_path: Path) -> None:
    made = trainer(
        "softnet", f"train.objective_options={{share=0.6, soft={soft}}}", f"train.ema={ema}", folder=tmp_path
    )
    first = {name: value.clone() for name, value in made.plain.objective.masks.named_buffers()}
    made.total = 6
    for step in range(6):
        made.step(step)
    values = made.average.averages if made.average else dict(made.plain.state_dict())
    weights = {name: value.clone() for name, value in values.items()}
    made._finish()
    found = load_classifier(tmp_path)
    for name, weight in maskable(found.backbone).items():
        mask = found.extras[f"masks.{in_a_name(name)}"]
        assert torch.equal(weight, weights[f"classifier.backbone.{name}"] * mask)
        chosen = major(weights[f"objective.scores.{in_a_name(name)}"], 0.6)
        assert torch.equal(mask == 1, chosen)
        assert torch.equal(mask[~chosen], first[in_a_name(name)][~chosen] * (soft == "true"))
        assert abs(float((mask == 1).float().mean()) - 0.6) <= 1 / mask.numel() + 1e-6
        if soft == "true":
            assert ((mask[~chosen] > 0) & (mask[~chosen] < 1)).all()
    images = batch().images
    assert torch.equal(found.classifier(images), found.classifier(images))
    assert float(found.info["losses"][-1]) >= 0


def test_scores_start_as_weights_of_a_layer_and_rows_to_spare_are_never_right() -> None:
    network = classifier()
    part = started(network)
    for name, weight in maskable(network.backbone).items():
        bound = weight[0].numel() ** -0.5
        assert 0.9 * bound < float(part.scores[in_a_name(name)].detach().abs().max()) <= bound
    made = trainer("softnet", "train.objective_options={spare=40}")
    assert made.plain.classifier.head.weight.shape == (44, DIM)
    assert isinstance(network.head.weight, nn.Parameter)


def test_labels_that_are_mixed_or_smoothed_are_those_of_cross_entropy() -> None:
    network = classifier()
    part = started(network, soft=False, share=1.0)  # everything counts in full
    mixed = batch()
    mixed = type(mixed)(mixed.images, mixed.labels, mixed.labels.flip(0), torch.full((12,), 0.3))
    loss, logits = part(network, [mixed], torch.zeros(()))
    expected = 0.3 * F.cross_entropy(logits, mixed.labels) + 0.7 * F.cross_entropy(logits, mixed.others)
    assert torch.allclose(loss, expected, atol=1e-6)
    assert torch.allclose(logits, network(mixed.images), atol=1e-5)

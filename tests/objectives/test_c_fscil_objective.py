"""C-FSCIL's base training: both stages against loops, the sharpened attention by hand, and what is released."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_networks import CLASSES, batch, objective
from torch import Tensor, nn

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives.base import Episode
from fscil.objectives.c_fscil import CFSCILObjective, WideCrossEntropy, episode_loss, evaluating, softabs
from fscil.training.checkpoint import Classifier
from fscil.training.loss import TrainingLoss
from fscil.training.optimizer import learning_rate, make_optimizer

SHOT, QUERY, ROWS, WIDTH = 2, 3, 7, 8


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def convolutional() -> Classifier:
    """With batch-norm, and with running statistics that are not those of a first step."""
    torch.manual_seed(0)
    network = Classifier(BackboneConfig(kind="resnet20", image_size=8), TrainConfig(), CLASSES)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2.0)
    return network


def episodes() -> CFSCILObjective:
    part = objective("c-fscil", dim=64, width=WIDTH, shot=SHOT, query=QUERY, rows=ROWS)
    assert isinstance(part, CFSCILObjective)
    with torch.no_grad():
        part.embedding.bias.normal_()
    return part


def drawn() -> Mixed:
    """An episode as it comes: class after class, in no order."""
    labels = torch.tensor([2, 0, 3, 1]).repeat_interleave(SHOT + QUERY)
    images = torch.rand(len(labels), 3, 8, 8, generator=torch.Generator().manual_seed(5))
    return Mixed(images, labels, labels, torch.ones(len(labels)))


def released_loss(network: Classifier, layer: nn.Linear, given: Mixed) -> Tensor:
    """As the released code has it: a memory of one-hot keys, and torch's own BCELoss over all of its rows."""
    per_class = SHOT + QUERY
    supports = [i for i in range(len(given.labels)) if i % per_class < SHOT]
    queries = [i for i in range(len(given.labels)) if i % per_class >= SHOT]
    network.backbone.eval()
    memory = torch.zeros(ROWS, WIDTH)
    with torch.no_grad():
        for i in supports:
            memory[given.labels[i]] += layer(network.backbone(given.images[i : i + 1]))[0]
    network.backbone.train()
    embedded = layer(network.backbone(given.images[queries]))
    outputs = []
    for vector in embedded:
        sharpened = []
        for key in memory:
            a, b = torch.tanh(vector), torch.tanh(key)
            s = (a / a.norm() * b / max(float(b.norm()), 1e-12)).sum()
            sharpened.append(1 / (1 + torch.exp(-10 * (s - 0.5))) + 1 / (1 + torch.exp(-10 * (-s - 0.5))))
        outputs.append(torch.stack(sharpened) / sum(sharpened))
    targets = torch.zeros(len(queries), ROWS)
    for place, i in enumerate(queries):
        targets[place, given.labels[i]] = 1
    return nn.BCELoss()(torch.stack(outputs), targets)


def test_the_whole_loss_of_an_episode_is_the_released_one() -> None:
    """Value, gradients of network, layer and head, and the running statistics that it leaves."""
    network, part, given = convolutional().train(), episodes(), drawn()
    twin, layer = copy.deepcopy(network), copy.deepcopy(part.embedding)
    loss, logits = part(network, [given], torch.zeros(()))
    loss.backward()
    expected = released_loss(twin, layer, given)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.item() > 0.01
    for (name, mine), theirs in zip(network.backbone.named_parameters(), twin.backbone.parameters(), strict=True):
        assert mine.grad is not None, name
        assert theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-3, atol=1e-6), name
        assert theirs.grad.abs().max() > 0
    for mine, theirs in zip(part.embedding.parameters(), layer.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-3, atol=1e-6)
    for (name, mine), theirs in zip(network.backbone.named_buffers(), twin.backbone.buffers(), strict=True):
        assert torch.allclose(mine.float(), theirs.float(), atol=1e-6), name
    assert network.training
    assert all(module.training for module in network.modules())
    assert logits.shape == (CLASSES * QUERY, CLASSES)
    asked = [i for i in range(len(given.labels)) if i % (SHOT + QUERY) >= SHOT]
    F.cross_entropy(twin.head(twin.backbone(given.images[asked]).detach()), given.labels[asked]).backward()
    assert isinstance(network.head.weight.grad, Tensor)
    assert isinstance(twin.head.weight.grad, Tensor)
    assert torch.allclose(network.head.weight.grad, twin.head.weight.grad, rtol=1e-3, atol=1e-6)


def test_the_first_stage_is_cross_entropy_of_a_linear_classifier_on_the_layer() -> None:
    network, part, given = convolutional().train(), objective("wide_cross_entropy", dim=64, width=WIDTH), batch(12)
    assert isinstance(part, WideCrossEntropy)
    twin, layer, rows = copy.deepcopy(network), copy.deepcopy(part.embedding), part.classes.weight.detach().clone()
    loss, logits = part(network, [given], torch.zeros(()))
    loss.backward()
    embedded = layer(twin.backbone(given.images))
    rows.requires_grad_()
    expected = torch.zeros(())
    for vector, label in zip(embedded, given.labels.tolist(), strict=True):
        products = torch.stack([(vector * row).sum() for row in rows])
        expected = expected - (products[label] - products.exp().sum().log()) / len(given.labels)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(logits, embedded @ rows.T, atol=1e-5)
    pairs = [
        *zip(network.backbone.parameters(), twin.backbone.parameters(), strict=True),
        *zip(part.embedding.parameters(), layer.parameters(), strict=True),
        (part.classes.weight, rows),
    ]
    for mine, theirs in pairs:
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["c-fscil", "wide_cross_entropy"])
def test_the_networks_own_head_learns_without_a_say_in_loss_or_network(name: str) -> None:
    given = drawn() if name == "c-fscil" else batch(12)
    losses, gradients = [], []
    for scale in (1.0, 5.0):
        network, part = convolutional(), episodes() if name == "c-fscil" else objective(name, dim=64)
        with torch.no_grad():
            network.head.weight.mul_(-scale).add_(scale)
        loss, _ = part(network, [given], torch.zeros(()))
        loss.backward()
        assert isinstance(network.head.weight, nn.Parameter)
        assert network.head.weight.grad is not None
        assert network.head.weight.grad.abs().sum() > 0
        losses.append(loss.item())
        first = next(network.backbone.parameters()).grad
        assert first is not None
        gradients.append(first)
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert torch.equal(*gradients)


def test_softabs_is_even_and_near_nought_at_nought() -> None:
    cosines = torch.linspace(-1, 1, 21)
    assert torch.allclose(softabs(cosines), softabs(-cosines))
    assert float(softabs(torch.zeros(()))) == pytest.approx(2 * sigmoid(-5), abs=1e-6)
    assert float(softabs(torch.zeros(()))) == pytest.approx(0.01339, abs=1e-5)


def test_loss_of_an_episode_by_hand() -> None:
    """Two classes whose queries equal the one support exactly and are orthogonal to the other, among 100 rows."""
    vectors = torch.eye(2)[:, None]
    near, far = sigmoid(5) + sigmoid(-15), 2 * sigmoid(-5)
    total = near + 99 * far
    expected = -(math.log(near / total) + 99 * math.log(1 - far / total)) / 100
    assert float(episode_loss(vectors, vectors, 100)) == pytest.approx(expected, rel=1e-5)
    alone = -2 * math.log(near / (near + far)) / 2
    assert float(episode_loss(vectors, vectors, 2)) == pytest.approx(alone, rel=1e-4)
    assert float(episode_loss(vectors, vectors, 1)) == pytest.approx(alone, rel=1e-4)  # never fewer than classes


def test_attention_of_an_episode_is_a_distribution_over_all_rows() -> None:
    """By numpy, with supports that differ: their sum is squashed, not the mean of squashed ones."""
    rng = np.random.default_rng(0)
    supports, queries = rng.normal(size=(3, 2, 5)), rng.normal(size=(3, 4, 5))
    keys = np.zeros((6, 5))
    keys[:3] = np.tanh(supports[:, 0] + supports[:, 1])
    asked = np.tanh(queries.reshape(12, 5))
    lengths = np.linalg.norm(asked, axis=1)[:, None] * np.maximum(np.linalg.norm(keys, axis=1), 1e-12)[None]
    s = asked @ keys.T / lengths
    sharp = 1 / (1 + np.exp(-10 * (s - 0.5))) + 1 / (1 + np.exp(10 * (s + 0.5)))
    weights = sharp / sharp.sum(1, keepdims=True)
    assert np.allclose(weights.sum(1), 1)
    targets = np.eye(6)[np.repeat(np.arange(3), 4)]
    expected = -(targets * np.log(weights) + (1 - targets) * np.log(1 - weights)).mean()
    got = episode_loss(torch.tensor(queries).float(), torch.tensor(supports).float(), 6)
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_first_weights_are_the_released_ones() -> None:
    """Xavier for the layer, 640 to 512, with no bias; torch's own for the linear classifier."""
    part = objective("wide_cross_entropy", outputs=60, dim=640)
    assert isinstance(part, WideCrossEntropy)
    weight, bound = part.embedding.weight, math.sqrt(6 / (640 + 512))
    assert weight.shape == (512, 640)
    assert 0.99 * bound < float(weight.detach().abs().max()) <= bound
    assert float(weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.01)
    assert (part.embedding.bias == 0).all()
    assert part.classes.bias is None
    assert part.classes.weight.shape == (60, 512)
    rows = part.classes.weight.detach()
    assert 0.99 / math.sqrt(512) < float(rows.abs().max()) <= 1 / math.sqrt(512)


def test_an_episode_is_of_all_classes_with_5_and_10_images() -> None:
    assert objective("c-fscil").episode() == Episode(CLASSES, 15, alone=True)
    assert objective("c-fscil", shot=1, query=2).episode() == Episode(CLASSES, 3, alone=True)
    assert objective("wide_cross_entropy").episode() is None


def test_pace_and_optimizer_of_the_recipe_are_the_released_ones() -> None:
    """119 epochs with a tenth of the rate after every 30; 70,000 episodes with a tenth after every 30,000."""
    config = configs.load("cifar100_c_fscil")
    assert config.second is not None
    assert (config.train.epochs, config.train.batch_size) == (119, 128)
    assert config.second.epochs * config.second.epoch_steps == 70_000
    for train, length in ((config.train, 234), (config.second, 1000)):
        plain = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(plain, 30)
        drops = [round(epoch * length) for epoch in train.milestones]
        assert (train.warmup_epochs, train.clip, train.ema, train.label_smoothing) == (0, 0, 0, 0)
        for epoch in range(train.epochs):
            for step in (epoch * length, (epoch + 1) * length - 1):
                rate = learning_rate(step, train.epochs * length, 0, train.lr, train.min_lr, drops, train.gamma)
                assert rate == pytest.approx(plain.param_groups[0]["lr"], rel=1e-9)
            plain.step()
            schedule.step()
        whole = TrainingLoss(convolutional(), objective(train.objective, dim=64), train)
        groups = make_optimizer(whole, train, fused=False).param_groups
        assert sum(len(group["params"]) for group in groups) == len(list(whole.parameters()))
        for group in groups:
            assert (group["weight_decay"], group["momentum"], group["nesterov"]) == (5e-4, 0.9, True)
            assert group["dampening"] == 0


def test_evaluating_leaves_no_trace() -> None:
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    x = torch.randn(4, 3)
    with evaluating(network):
        assert torch.equal(network(x), F.batch_norm(x, torch.zeros(3), torch.ones(3)))
        assert not network(x.requires_grad_()).requires_grad
    assert network.training
    assert torch.is_grad_enabled()
    assert (network[0].running_mean == 0).all()
    with pytest.raises(ValueError, match="within"), evaluating(network):
        raise ValueError("within")
    assert network.training


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"width": 0}, {"shot": 0}, {"query": 0}, {"rows": 0}):
        with pytest.raises(InputError, match=r"train\.objective_options\.\w+ must be"):
            objective("c-fscil", **bad)

"""Data-free replay: the contest of generator and student, what is replayed, and what a session leaves as it is."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_method_contract import learn
from tiny_benchmark import BASE, CPU, DEPTH, SHOT, WAY, prepared, tiny_benchmark, tiny_network
from torch import Tensor, nn

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.data import Session
from fscil.methods import make
from fscil.methods.base import seeded
from fscil.methods.df_replay import DFReplay
from fscil.methods.generator import Contest, CosineNetwork, Generator, entropy
from fscil.methods.module_state import at_rest
from fscil.training.checkpoint import Classifier

QUICK: dict[str, Any] = {
    "epochs": 3, "replay": 4, "noise": 6, "generator_epochs": 1, "generator_iterations": 2, "generator_batch": 8,
    "student_steps": 2,
}  # fmt: skip
CONTEST = Contest(
    epochs=2, iterations=1, student_steps=2, batch=6, entropy=0.3, student_lr=0.1, lr=1e-3, milestones=(1,),
    momentum=0.9, weight_decay=0.05,
)  # fmt: skip


def started(**options: Any) -> DFReplay:
    method = make("df-replay", {**QUICK, **options})
    assert isinstance(method, DFReplay)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def sessions_of(method: DFReplay, network: Classifier | None = None) -> list[Session]:
    found = prepared(method, tiny_benchmark())
    return [dataclasses.replace(found[0], network=copy.deepcopy(network)), *found[1:]] if network else found


def small_resnet() -> Classifier:
    """With statistics of its own, which nobody must move."""
    torch.manual_seed(0)
    config = BackboneConfig(kind="resnet20", image_size=8, signed=True)
    network = Classifier(config, TrainConfig(), BASE)
    with torch.no_grad():
        network(torch.rand(32, 3, 8, 8))
    return at_rest(network)  # type: ignore[return-value]


def small_generator() -> Generator:
    with seeded(5, CPU):
        return at_rest(Generator(6, 8))  # type: ignore[return-value]


class Flat(nn.Module):
    """A network that can be differentiated by hand: one linear map of the pixels."""

    def __init__(self, seed: int, side: int = 8, classes: int = 4) -> None:
        super().__init__()
        drawn = torch.randn(classes, 3 * side * side, generator=torch.Generator().manual_seed(seed))
        self.weight = nn.Parameter(0.1 * drawn)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T


@pytest.mark.parametrize("side", [32, 8, 10])
def test_what_the_generator_draws_is_normalised(side: int) -> None:
    """Its last layer, in training, brings every channel of a batch to mean 0 and standard deviation 1."""
    torch.manual_seed(0)
    generator = Generator(512, side).train()
    images = generator(torch.randn(64, 512))
    assert images.shape == (64, 3, side, side)
    channels = images.transpose(0, 1).flatten(1)
    assert torch.allclose(channels.mean(1), torch.zeros(3), atol=1e-4)
    assert torch.allclose(channels.std(1, correction=0), torch.ones(3), atol=1e-3)
    if side == 32:
        assert sum(p.numel() for p in generator.parameters()) == 2_157_827  # the published one


def test_the_reward_by_hand() -> None:
    answers, wanted = torch.tensor([[1.0, 2.0], [0.0, 0.5]]), torch.tensor([[0.0, 0.0], [3.0, -1.0]])
    share = 1 / (1 + math.exp(-4))
    doubt = (math.log(2) - share * math.log(share) - (1 - share) * math.log(1 - share)) / 2
    assert float(entropy(wanted)) == pytest.approx(doubt)
    expected = -(1 + 2 + 3 + 1.5) / 4 - 0.3 * doubt
    assert float(CONTEST.generator_loss(answers, wanted)) == pytest.approx(expected)


def test_a_generator_that_agrees_with_its_student_hears_nothing_but_doubt() -> None:
    teacher, generator = Flat(1), small_generator().train()
    plain = dataclasses.replace(CONTEST, entropy=0.0)
    parameters = [p.requires_grad_() for p in generator.parameters()]
    images = generator(torch.randn(6, 6))
    answers, wanted = teacher(images), teacher(images)
    silent = torch.autograd.grad(plain.generator_loss(answers, wanted), parameters, retain_graph=True)
    assert all(not gradient.any() for gradient in silent)
    heard = torch.autograd.grad(CONTEST.generator_loss(answers, wanted), parameters)
    assert any(gradient.abs().max() > 0 for gradient in heard)


def test_a_contest_against_a_slow_twin() -> None:
    """Two rounds: the student by Nesterov's rule, the generator by Adam's; the second at a tenth of both rates."""
    teacher, student, generator = Flat(1), Flat(2), small_generator()
    teacher.requires_grad_(False)
    twin, weight, numbers = copy.deepcopy(generator), student.weight.detach().clone(), torch.Generator().manual_seed(3)
    untouched = teacher.weight.clone()
    CONTEST.hold(teacher, student, generator.train().requires_grad_(), torch.Generator().manual_seed(3))
    assert torch.equal(teacher.weight, untouched)

    twin.train().requires_grad_()
    names = [name for name, _ in twin.named_parameters()]
    first, second = ({name: torch.zeros_like(p) for name, p in twin.named_parameters()} for _ in range(2))
    speed: Tensor | None = None
    for round_, factor in enumerate((1.0, 0.1)):
        for _ in range(2):
            with torch.no_grad():
                images = twin(torch.randn(6, 6, generator=numbers)).flatten(1)
            signs = (images @ weight.T - images @ teacher.weight.T).sign()
            gradient = signs.T @ images / signs.numel() + 0.05 * weight
            speed = gradient if speed is None else 0.9 * speed + gradient
            weight = weight - 0.1 * factor * (gradient + 0.9 * speed)
        images = twin(torch.randn(6, 6, generator=numbers)).flatten(1)
        answers, wanted = images @ weight.T, images @ teacher.weight.T
        shares = wanted.softmax(1)
        reward = (answers - wanted).abs().sum() / answers.numel()
        reward = reward + 0.3 * sum(-(shares[i, c] * shares[i, c].log()) for i in range(6) for c in range(4)) / 6
        gradients = torch.autograd.grad(-reward, list(twin.parameters()))
        step = round_ + 1
        with torch.no_grad():
            for name, gradient, parameter in zip(names, gradients, twin.parameters(), strict=True):
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                root = (second[name] / (1 - 0.999**step)).sqrt() + 1e-8
                parameter -= 1e-3 * factor * (first[name] / (1 - 0.9**step)) / root
    assert torch.allclose(student.weight, weight, atol=1e-5)
    for (name, got), expected in zip(generator.named_parameters(), twin.parameters(), strict=True):
        # Adam turns a gradient of nothing but rounding (a bias before a norm) into a whole step either way.
        room = 3e-3 if "bias" in name else 2e-4
        assert torch.allclose(got, expected, atol=room), name
    assert torch.allclose(generator.last[5].running_mean, twin.last[5].running_mean, atol=1e-4)  # type: ignore[arg-type]


def test_a_step_of_the_generator_raises_its_reward_on_the_same_noise() -> None:
    teacher, student, generator = Flat(1), Flat(2), small_generator().train().requires_grad_()
    noise = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))

    class Same(Generator):
        def draw(self, count: int, random: torch.Generator) -> Tensor:
            return self(noise)

    def reward() -> float:
        with torch.no_grad():
            images = generator(noise)
            return -float(CONTEST.generator_loss(student(images), teacher(images)))

    generator.__class__ = Same
    before, weight = reward(), student.weight.clone()
    still = dataclasses.replace(CONTEST, epochs=1, student_lr=0.0)
    still.hold(teacher.requires_grad_(False), student, generator, torch.Generator())
    assert reward() > before
    assert torch.equal(student.weight, weight)  # which only its own steps change


def test_drawn_images_are_not_normalised_again() -> None:
    """As pixels, those that the network's own normalisation makes them of, they get the same answer."""
    network = small_resnet()
    network.backbone.measure_pixels(torch.randint(0, 90, (50, 8, 8, 3), dtype=torch.uint8))
    drawn = small_generator().draw(7, torch.Generator().manual_seed(0))
    as_pixels = drawn * network.backbone.std + network.backbone.mean
    rows = torch.randn(5, 64)
    answers = CosineNetwork(network.backbone, rows, 3.0)(drawn)
    expected = 3 * F.cosine_similarity(network.backbone(as_pixels)[:, None], rows[None], dim=-1)
    assert torch.allclose(answers, expected, atol=1e-4)


@pytest.mark.parametrize("drawn_as_new", [False, True])
def test_a_session_against_a_slow_twin(drawn_as_new: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cross-entropy of shots and drawn images, the old network's names for these; rates by group and epoch.

    Its rows of new classes are random as yet, and may be what it names a drawn image by.
    """
    options = {"milestones": [2], "lr": 0.3, "lr_old": 0.02, "weight_decay": 0.01, "scale": 2.0}
    method, generator = started(**options), small_generator()
    monkeypatch.setattr(DFReplay, "_trained_generator", lambda self, session: generator)
    sessions = sessions_of(method, small_resnet())
    learn(method, sessions[:2])
    session = sessions[2]
    network, old = copy.deepcopy(method.network_.backbone), method.rows_.clone()
    numbers, images, labels = method._generator(2, CPU), session.images, session.labels
    assert images is not None
    new = (2 * torch.rand(WAY, 64, generator=method._generator(2, CPU)) - 1) / 8
    if drawn_as_new:
        with torch.no_grad():
            new = 1e-2 * network.forward_normalised(generator(torch.randn(WAY, 6)))
        monkeypatch.setattr(DFReplay, "_fresh_rows", lambda self, session: new.clone())
    learn(method, [session])

    start = torch.cat([old, new])
    frozen = copy.deepcopy(network)
    stage = [name for name, _ in network.named_parameters() if name.startswith("trunk.2")]
    parameters = dict(network.named_parameters())
    held = {"old": old, "new": new, **{name: parameters[name].detach().clone() for name in stage}}
    speeds: dict[str, Tensor] = {}
    for rate in (1.0, 1.0, 0.5):
        order = torch.rand(SHOT * WAY, generator=numbers).argsort()
        drawn = generator(torch.randn(4, 6, generator=numbers))
        with torch.no_grad():
            asked = frozen.forward_normalised(drawn)
        names = [
            max(range(len(start)), key=lambda c, x=x: float(F.cosine_similarity(x, start[c], dim=0))) for x in asked
        ]
        assert (max(names) >= len(old)) == drawn_as_new
        leaves = {name: value.clone().requires_grad_() for name, value in held.items()}
        given = {name: leaves[name] for name in stage}
        seen = [(images[i : i + 1], int(labels[i]), False) for i in order]
        seen += [(drawn[i : i + 1], names[i], True) for i in range(4)]
        losses = []
        for image, name, normalised in seen:
            if normalised:  # by way of pixels, as the network's own entrance is one of pixels
                image = image * network.std + network.mean
            x = torch.func.functional_call(network, given, (image,))[0]
            rows = torch.cat([leaves["old"], leaves["new"]])
            logits = 2 * torch.stack([(x @ row) / (x.norm() * row.norm()) for row in rows])
            losses.append(-(logits[name] - logits.exp().sum().log()))
        real, replayed = sum(losses[: SHOT * WAY]) / (SHOT * WAY), sum(losses[SHOT * WAY :]) / 4
        loss = (SHOT * WAY * real + 4 * replayed) / (SHOT * WAY + 4)
        gradients = dict(zip(held, torch.autograd.grad(loss, [leaves[name] for name in held]), strict=True))
        for name, gradient in gradients.items():
            gradient = gradient + 0.01 * held[name]
            speeds[name] = 0.9 * speeds[name] + gradient if name in speeds else gradient
            held[name] = held[name] - rate * (0.3 if name == "new" else 0.02) * (gradient + 0.9 * speeds[name])
    assert torch.allclose(method.rows_, torch.cat([held["old"], held["new"]]), atol=1e-4)
    after = dict(method.network_.backbone.named_parameters())
    for name in stage:
        assert torch.allclose(after[name], held[name], atol=1e-4), name


def test_what_a_session_leaves_as_it_is() -> None:
    """All before the last stage, and the statistics of batch-norm; old rows move much less than new ones."""
    method = started(epochs=20)
    sessions = sessions_of(method, small_resnet())
    learn(method, sessions[:1])
    before = copy.deepcopy(method.network_.state_dict())
    learn(method, sessions[1:2])
    old, first = method.rows_[:BASE], before["head.weight"]
    changed = {name for name, value in method.network_.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {
        f"backbone.{name}" for name, _ in method.network_.backbone.named_parameters() if "trunk.2" in name
    }
    drawn = (2 * torch.rand(WAY, 64, generator=method._generator(1, CPU)) - 1) / 8
    assert float((old - first).norm()) < 0.05 * float((method.rows_[BASE:] - drawn).norm())


def test_generators_are_trained_anew_against_the_network_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first on logits of base training, later ones on cosines with a student whose factor learns too."""
    seen: list[tuple[float, bool, bool]] = []
    hold = Contest.hold

    def spied(self: Contest, teacher: Any, student: Any, generator: Any, random: Any) -> None:
        factor = float(teacher.scale)
        before = [copy.deepcopy(module.state_dict()) for module in (teacher, student, generator)]
        assert student.rows.shape == teacher.rows.shape
        assert all(part.training for part in student.modules())
        assert not any(part.training for part in teacher.modules())
        hold(self, teacher, student, generator, random)
        now = [module.state_dict() for module in (teacher, student, generator)]
        same = [all(torch.equal(one[name], two[name]) for name in one) for one, two in zip(before, now, strict=True)]
        assert same == [True, False, False]
        seen.append((factor, bool(student.scale != factor), torch.equal(teacher.rows, method.rows_)))

    monkeypatch.setattr(Contest, "hold", spied)
    method = started(base_scale=16.0, scale=1.5)
    learn(method, sessions_of(method, small_resnet()))
    assert seen == [(16.0, False, True), (1.5, True, True), (1.5, True, True)]


def test_it_has_the_authors_settings() -> None:
    config = configs.load("cifar100_df_replay")
    options = make("df-replay", config.options["df-replay"]).options()
    expected = {
        "lr": 0.1, "lr_old": 1e-4, "momentum": 0.9, "weight_decay": 6e-4, "scale": 1.0, "base_scale": 16.0,
        "epochs": 100, "milestones": (39, 69), "replay": 25, "noise": 512, "entropy": 0.01, "generator_epochs": 150,
        "generator_iterations": 50, "student_steps": 5, "generator_batch": 512, "generator_lr": 1e-3,
        "student_lr": 0.1, "generator_milestones": (49, 99),
    }  # fmt: skip
    assert {key: options[key] for key in expected} == expected
    assert make("df-replay").options() == {**options, "augment": configs.to_dict(configs.AugmentConfig())}
    train = config.train
    assert (train.epochs, train.batch_size, train.lr, train.gamma, train.weight_decay) == (150, 128, 0.1, 0.5, 6e-4)
    assert (train.optimizer, train.nesterov, train.milestones, train.ema) == ("sgd", True, (39, 69), 0)
    assert (config.backbone.kind, config.backbone.signed, train.logit_scale) == ("resnet20", True, 16.0)


def test_the_network_of_a_student_is_a_fresh_one_of_the_same_kind() -> None:
    """And making it takes no numbers from others."""
    method = started()
    learn(method, prepared(method, tiny_benchmark())[:1])
    numbers = torch.get_rng_state()
    one, two = method._trained_generator(2), method._trained_generator(2)
    assert torch.equal(torch.get_rng_state(), numbers)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))
    assert not torch.equal(method._trained_generator(3).spread.weight, one.spread.weight)
    assert one.side == tiny_network().backbone.image_size

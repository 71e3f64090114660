"""NC-FSCIL against what its authors released: their log, their settings, and slow twins of both of their losses."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from feature_worlds import BASE, DIM, WAY, make_world
from torch import nn

from fscil.backbones import build_backbone
from fscil.backbones.heads import EtfHead, Neck, simplex_frame
from fscil.core import config as configs
from fscil.core.config import BackboneConfig
from fscil.data.augment import Mixed
from fscil.methods import make, nc_fscil
from fscil.methods.nc_fscil import NCFSCIL, SHARD, _batches, pace, partners
from fscil.objectives import Setting, build_objective
from fscil.training.checkpoint import Classifier
from fscil.training.loss import TrainingLoss
from fscil.training.optimizer import learning_rate, make_optimizer

RECIPE = configs.load("cifar100_nc_fscil_authors")


@pytest.mark.parametrize(
    ("updates", "logged"),
    [  # update: rate, as logs/cifar_inc.log of the authors' repository has them
        (50, {1: 0.06991559434150288, 2: 0.11444600981311388, 3: 0.1582692899781174, 4: 0.20106903059534093,
              5: 0.24253696182225618, 6: 0.23930125038327185, 44: 0.0028014487803467557, 45: 0.0025, 46: 0.00025,
              50: 0.00025}),
        (75, {1: 0.06996510975565653, 5: 0.24689732913250065, 20: 0.20340686298001828, 30: 0.1537869655770939}),
        (200, {1: 0.06999550329525811, 195: 0.0025, 196: 0.00025}),
    ],
)  # fmt: skip
def test_a_session_runs_at_the_rates_of_the_released_log(updates: int, logged: dict[int, float]) -> None:
    for recipe in ("cifar100_nc_fscil", "cifar100_nc_fscil_authors"):
        assert configs.load(recipe).options["nc-fscil"]["steps"] == [50, 75, 100, 120, 140, 160, 200, 200]
    for update, rate in logged.items():
        assert 0.25 * pace(update, updates) == pytest.approx(rate, rel=1e-12)


def test_the_first_and_last_update_of_a_session_take_the_first_and_last_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, _ = make_world()
    method = fresh(steps=(50,))
    method.fit_base(sessions[0])
    rates: list[float] = []
    step = torch.optim.SGD.step

    def noted(self: torch.optim.SGD, *rest: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *rest)

    monkeypatch.setattr(torch.optim.SGD, "step", noted)
    method.fit_novel(sessions[1])
    assert rates[:2] == pytest.approx([0.06991559434150288, 0.11444600981311388])
    assert rates[44:] == pytest.approx([0.0025] + [0.00025] * 5)


def test_base_training_has_the_released_updates_and_rates() -> None:
    """235 updates in each of 50 epochs, 100 of them warm-up; the log's rates once that is over, to its four digits."""
    train = RECIPE.train
    total, warmup = train.epochs * train.epoch_steps, round(train.warmup_epochs * train.epoch_steps)
    assert (total, warmup) == (11_750, 100)
    for update, logged in ((110, 0.2499), (245, 0.2497), (11_715, 0.002503), (11_725, 0.002501)):
        # The log is written after an update. The released cosine begins with the warm-up and ends 10 updates early.
        rate = learning_rate(update - 1, total, warmup, train.lr, train.min_lr)
        assert rate == pytest.approx(logged, rel=2e-3)


def test_every_parameter_decays_in_base_training_and_nothing_is_averaged_or_looks_ahead() -> None:
    backbone = BackboneConfig(kind="resnet20")
    setting = Setting(64, 60, 60, RECIPE.train.logit_scale, 0.0)
    network = Classifier(backbone, RECIPE.train, 60)
    model = TrainingLoss(network, build_objective(RECIPE.train, setting), RECIPE.train)
    optimizer = make_optimizer(model, RECIPE.train, fused=False)
    decayed = sum(len(group["params"]) for group in optimizer.param_groups if group["weight_decay"] == 5e-4)
    assert decayed == len(list(network.parameters()))
    assert {(g["momentum"], g["nesterov"], g["dampening"]) for g in optimizer.param_groups} == {(0.9, False, 0)}
    assert RECIPE.train.ema == 0


def test_a_session_decays_every_parameter_of_the_neck_too(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, _ = make_world()
    method = fresh()
    method.fit_base(sessions[0])
    made: list[torch.optim.SGD] = []
    start = torch.optim.SGD.__init__

    def noted(self: torch.optim.SGD, *given: Any, **options: Any) -> None:
        start(self, *given, **options)
        made.append(self)

    monkeypatch.setattr(torch.optim.SGD, "__init__", noted)
    method.fit_novel(sessions[1])
    (group,) = made[0].param_groups
    assert [id(parameter) for parameter in group["params"]] == [id(p) for p in method.neck_.parameters()]
    assert (group["initial_lr"], group["weight_decay"], group["momentum"], group["nesterov"]) == (
        0.25,
        5e-4,
        0.9,
        False,
    )


def test_a_session_sees_as_many_samples_as_the_log_says() -> None:
    """85, 90, ..., 120: 25 shots, a mean of every earlier new class and of every base class; batches of 64."""
    for session, logged in enumerate(range(85, 125, 5), start=1):
        labels = torch.arange(25 + 5 * (session - 1) + 60)
        assert len(labels) == logged
        batch = _batches(torch.zeros(len(labels), 1), labels, 64, torch.Generator().manual_seed(0))
        assert [len(batch()[1].unique()) for _ in range(3)] == [64, 64, 64]


def test_samples_are_mixed_within_eights_as_the_authors_eight_processes_do() -> None:
    found = np.zeros((64, 64), dtype=bool)
    for seed in range(200):
        order = partners(torch.rand(64, generator=torch.Generator().manual_seed(seed)))
        assert sorted(order.tolist()) == list(range(64))
        found[range(64), order] = True
    blocks = np.kron(np.eye(64 // SHARD, dtype=bool), np.ones((SHARD, SHARD), dtype=bool))
    assert (found == blocks).all()  # every pair of the same eight, its own place included, and no other


def test_the_frame_is_the_published_formula() -> None:
    """E^T E = K / (K - 1) (I - 11^T / K); its vectors sum to zero, and lie in the span of an orthonormal basis."""
    for count in (2, 10, 100):
        frame = simplex_frame(count, 512, torch.Generator().manual_seed(0)).double().numpy()
        wanted = count / (count - 1) * (np.eye(count) - np.full((count, count), 1 / count))
        assert np.abs(frame @ frame.T - wanted).max() < 1e-6
        assert np.abs(frame.sum(0)).max() < 1e-6
        assert np.linalg.matrix_rank(frame, tol=1e-4) == count - 1


def test_the_neck_starts_as_the_authors_does() -> None:
    """torch's linear layers: uniform in +- 1 / sqrt(inputs); norms at one and zero."""
    torch.manual_seed(0)
    neck = Neck(640, 512)
    for layer, inputs in ((neck.deep[0], 640), (neck.deep[3], 1280), (neck.deep[6], 1280), (neck.shortcut, 640)):
        weight = layer.weight.detach().numpy()
        assert np.abs(weight).max() <= inputs**-0.5
        assert weight.std() == pytest.approx((3 * inputs) ** -0.5, rel=0.01)
    for norm in (neck.deep[1], neck.deep[4]):
        assert (norm.weight == 1).all()
        assert (norm.bias == 0).all()
        assert norm.eps == 1e-5
    assert [layer.bias is None for layer in (neck.deep[0], neck.deep[3], neck.deep[6], neck.shortcut)] == [
        False, False, True, True,
    ]  # fmt: skip


def cubic(distance: float) -> float:
    """OpenCV's kernel, with which the authors resize: Keys' with a = -0.75."""
    a, x = -0.75, abs(distance)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def test_images_are_looked_at_as_the_authors_do() -> None:
    """Resized from 32 to 36 by OpenCV's bicubic filter, whose borders repeat, and the middle 32 taken."""
    network = build_backbone(BackboneConfig(kind="resnet20", test_zoom=RECIPE.backbone.test_zoom)).eval()
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    weights = np.zeros((36, 32))
    for row in range(36):
        place = (row + 0.5) * 32 / 36 - 0.5
        for tap in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
            weights[row, min(max(tap, 0), 31)] += cubic(place - tap)
    larger = np.einsum("ri,cj,ijk->rck", weights, weights, picture / 255.0)
    seen = network.prepare(torch.from_numpy(picture)[None])[0] * network.std + network.mean
    assert np.abs(seen.permute(1, 2, 0).numpy() - larger[2:34, 2:34]).max() < 1e-5


def by_hand(neck: Neck, row: np.ndarray) -> np.ndarray:
    """The neck of one sample in float64: h = W3 phi(LN(W2 phi(LN(W1 x)))) + P x, and u = h / |h|."""
    at = {name: value.detach().double().numpy() for name, value in neck.state_dict().items()}
    hidden = row
    for linear, norm in ((0, 1), (3, 4)):
        hidden = at[f"deep.{linear}.weight"] @ hidden + at[f"deep.{linear}.bias"]
        hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
        hidden = hidden * at[f"deep.{norm}.weight"] + at[f"deep.{norm}.bias"]
        hidden = np.where(hidden > 0, hidden, 0.1 * hidden)
    return at["deep.6.weight"] @ hidden + at["shortcut.weight"] @ row


@pytest.mark.parametrize("twice", [True, False])
def test_the_whole_loss_of_base_training_against_a_slow_twin(twice: bool) -> None:
    """Image by image: its share of each label's 10 * 1/2 (u . e - 1)^2, and the first label's once more if mixed."""
    torch.manual_seed(1)
    train = configs.load(
        "cifar100_nc_fscil_authors", [f"train.objective_options.first_twice={str(twice).lower()}"]
    ).train
    head = EtfHead(DIM, BASE, train.logit_scale, vertices=12)
    network = nn.Module()
    network.backbone, network.head = nn.Identity(), head
    network.forward = lambda images: head(images)  # type: ignore[method-assign]
    objective = build_objective(train, Setting(DIM, BASE, BASE, train.logit_scale, 0.0))
    labels, others = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([5, 6, 7, 0, 1])
    batch = Mixed(torch.randn(5, DIM), labels, others, torch.tensor([0.3, 0.9, 1.0, 0.5, 0.0]))
    loss, logits = objective(network, [batch], torch.tensor(0.5))
    total = 0.0
    frame = head.weight.double().numpy()
    for row in range(5):
        unit = by_hand(head.neck, batch.images[row].double().numpy())
        unit /= np.linalg.norm(unit)
        share = float(batch.share[row])
        first, second = (10 * 0.5 * (unit @ frame[int(own[row])] - 1) ** 2 for own in (labels, others))
        total += share * first + (1 - share) * second + (first if twice and share < 1 else 0.0)
        assert logits[row].detach().numpy() == pytest.approx(train.logit_scale * frame[:BASE] @ unit, abs=1e-4)
    assert loss.item() == pytest.approx(total / 5, rel=1e-5)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_whole_session_against_a_slow_twin(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three updates of the neck, with batches, pairs, weights, loss, momentum, decay and rates written out."""
    sessions, _ = make_world()
    method = fresh(steps=(3,), mixup=float(mixed), batch=12)
    for session in sessions[:2]:
        (method.fit_base if session.index == 0 else method.fit_novel)(session)
    neck, means = copy.deepcopy(method.neck_).double().requires_grad_(), method.means_.clone()
    frame = method.frame_.double()
    pairs = torch.arange(12).roll(5)
    monkeypatch.setattr(nc_fscil, "partners", lambda numbers: pairs)
    rows = [torch.arange(start, start + 12) for start in (0, 4, 6)]  # shots, means of earlier classes, of base classes
    monkeypatch.setattr(nc_fscil, "_batches", lambda x, y, *rest: iter([(x[r], y[r]) for r in rows]).__next__)
    session = sessions[2]
    assert session.view is not None
    method.fit_novel(session)

    earlier, base = range(BASE, BASE + WAY), range(BASE)
    x = [*session.view.final, *(means[c] for c in earlier), *(means[c] for c in base)]
    y = [*session.labels.tolist(), *earlier, *base]
    momentum = {name: torch.zeros_like(value) for name, value in neck.named_parameters()}
    for update, chosen in enumerate(rows, start=1):
        inputs, labels = [x[row].double() for row in chosen], [y[row] for row in chosen]
        weight = {c: 12 / len(set(labels)) / labels.count(c) for c in labels}
        h = [neck(sample[None])[0] for sample in inputs]
        loss = torch.zeros((), dtype=torch.float64)
        for place in range(12):
            other = int(pairs[place]) if mixed else place
            unit = (h[place] + h[other]) / 2
            unit = unit / unit.norm()
            for label in (labels[place], labels[other]):
                loss = loss + 0.5 * 10 * 0.5 * weight[label] * (unit @ frame[label] - 1) ** 2 / 12
        gradients = torch.autograd.grad(loss, list(neck.parameters()))
        rate = (
            0.25 * {1: 0.28 * 0.7525, 2: 0.46 * 0.2575, 3: 0.64 * 0.01}[update]
        )  # warm-up times a cosine of 3 updates
        with torch.no_grad():
            for (name, value), gradient in zip(neck.named_parameters(), gradients, strict=True):
                momentum[name] = 0.9 * momentum[name] + gradient + 5e-4 * value
                value -= rate * momentum[name]
    for name, value in neck.state_dict().items():
        assert torch.allclose(method.neck_.state_dict()[name].double(), value, atol=2e-6), name


@pytest.mark.parametrize("layer", [0, 3])
def test_a_neck_of_small_weights_is_thrown_further_by_a_session(layer: int) -> None:
    """Why sessions need the norms that the released base training leaves.

    Weights, norms' gains and features twice as large give the same scores; what the biases are added to is four times
    as large and their gradient a quarter, so that they go a sixteenth of the way to drowning the sample in what is
    common to all.
    """
    torch.manual_seed(0)
    neck, x, labels = Neck(DIM, 512).double(), 20 * torch.randn(6, DIM, dtype=torch.float64), torch.arange(6)
    frame = simplex_frame(6, 512, torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        for parameter in neck.parameters():
            parameter *= 10.0 if parameter.ndim > 1 else float(parameter.mean() == 1)  # no bias yet
    larger = copy.deepcopy(neck)
    with torch.no_grad():
        for parameter in larger.parameters():
            parameter *= 2

    def reach(network: Neck, inputs: torch.Tensor) -> tuple[torch.Tensor, float]:
        unit = torch.nn.functional.normalize(network(inputs), dim=-1)
        (5 * ((unit * frame[labels]).sum(1) - 1).square().mean()).backward()
        bias = network.deep[layer].bias
        assert isinstance(bias, torch.Tensor)
        assert bias.grad is not None
        return unit.detach(), float(bias.grad.norm() / network.deep[: layer + 1](inputs).detach().std(1).mean())

    small, large = reach(neck, x), reach(larger, 2 * x)
    assert torch.allclose(small[0], large[0], atol=1e-4)
    assert small[1] / large[1] == pytest.approx(16, rel=1e-3)


def fresh(**options: Any) -> NCFSCIL:
    method = make("nc-fscil", {"base_steps": 20, "steps": (12,), "vertices": 20, **options})
    assert isinstance(method, NCFSCIL)
    method.start(seed=0, depth=0, device=torch.device("cpu"))
    return method

"""YourSelf's training, step by step, against a slow twin; and that the published combination learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from feature_worlds import BASE, BLOCKS, DIM, make_layered_world, make_world
from plain_yourself import Batch, PlainGaussians, PlainYourSelf, direction_means, unit
from torch import Tensor

from fscil.data.session import Session, View
from fscil.methods import Method, YourSelf, make
from fscil.methods.base import dampened_sgd
from fscil.methods.gaussians import ClassGaussians

# As released, for CIFAR-100; the steps are ours.
PUBLISHED: dict[str, Any] = {
    "residual": False,
    "joint": False,
    "own_relations": False,
    "prototypes": "head",
    "weight_cos": 0.1,
    "weight_novel": 2.0,
    "weight_all": 0.0,
    "weight_cr": 0.5,
    "weight_intra": 1.0,
    "weight_inter": 1.0,
    "whitened": 0.0,
    "jitter": 1e-6,
}
OURS: dict[str, Any] = {"whitened": 0.0, "centring": 0.3, "weight_inter": 0.2, "reverse_relations": True}
STEPS, CLASSES, SAMPLES = 10, 4, 3
FEW = 5  # steps of the session: three of the four drops of the rate fall together


class Observed(YourSelf):
    """Keeps the batches it learns from and the pools they are taken from."""

    def start(self, **how: Any) -> None:
        super().start(**how)
        self.batches: list[Batch] = []
        self.pools: list[Tensor] = []

    def _loss(self, stacked: Tensor, labels: Tensor) -> Tensor:
        self.batches.append((stacked.clone(), labels.clone()))
        return super()._loss(stacked, labels)


def stacked(view: View) -> np.ndarray:
    return torch.stack([view.final, *[view.layers[block] for block in BLOCKS]]).double().numpy()


@pytest.fixture
def in_float64() -> Iterator[None]:
    """Everything, so that what differs from the twin is a mistake and not rounding."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Every pool that is drawn."""
    drawn: list[Tensor] = []
    draw = ClassGaussians.pool

    def kept(self: ClassGaussians, *how: Any) -> Tensor:
        drawn.append(draw(self, *how))
        return drawn[-1]

    monkeypatch.setattr(ClassGaussians, "pool", kept)
    return drawn


@pytest.mark.parametrize("first_step", ["released", "dampened"])
@pytest.mark.parametrize("options", [PUBLISHED, OURS], ids=["published", "ours"])
def test_sessions_are_learned_as_by_the_slow_twin(
    options: dict[str, Any], first_step: Any, pools: list[Tensor], in_float64: None
) -> None:
    sessions, exams = make_world()
    steps = {"base_steps": STEPS, "novel_steps": FEW, "batch_classes": CLASSES, "batch_samples": SAMPLES}
    chosen = {"layers": BLOCKS, **options, "first_step": first_step}
    method = Observed(**{**chosen, **steps})
    start = YourSelf(**{**chosen, "base_steps": 0})
    for each in (start, method):
        each.start(seed=3, depth=4, device=torch.device("cpu"))
        each.fit_base(sessions[0])
    twin = PlainYourSelf(start.rectifier_.state_dict(), len(BLOCKS), method.options())

    off = method.centring * stacked(sessions[0].view).mean(1, keepdims=True)
    labels = sessions[0].labels.numpy()
    base = stacked(sessions[0].view) - off
    kinds = [direction_means(x, labels, range(BASE)) for x in base]
    if method.prototypes == "head":
        assert sessions[0].head is not None
        kinds[0] = unit(sessions[0].head.double().numpy())
    check_base_batches(method.batches, base, labels)
    twin.train(method.batches, [torch.from_numpy(x) for x in kinds], None)
    method.batches.clear()
    session = sessions[1]
    method.fit_novel(session)
    shots = stacked(session.view) - off
    new = [direction_means(x, session.labels.numpy(), session.classes) for x in shots]
    kinds = [np.concatenate(pair) for pair in zip(kinds, new, strict=True)]
    check_novel_batches(method.batches, pools[-1], shots, session)
    twin.train(method.batches, [torch.from_numpy(x) for x in kinds], BASE)
    view = exams[1][0]
    expected = twin.scores(torch.from_numpy(stacked(view) - off), torch.from_numpy(kinds[0]))
    assert torch.allclose(method.scores(view), expected, atol=1e-6)
    for name, weight in method.rectifier_.state_dict().items():
        assert torch.allclose(weight, twin.weights[name], atol=1e-5), name


def check_base_batches(batches: list[Batch], base: np.ndarray, labels: np.ndarray) -> None:
    """Real images of some classes, as many of each, all their layers from one image, and others in every step."""
    assert len(batches) == STEPS
    seen = set()
    for x, names in batches:
        counts = np.bincount(names, minlength=BASE)
        assert sorted(counts)[-CLASSES:] == [SAMPLES] * CLASSES
        assert counts.sum() == CLASSES * SAMPLES
        for row, name in zip(x.numpy().transpose(1, 0, 2), names.tolist(), strict=True):
            (found,) = np.nonzero(np.abs(base.transpose(1, 0, 2) - row).max((1, 2)) < 1e-5)
            assert len(found) == 1
            assert labels[found[0]] == name
            seen.add(int(found[0]))
    assert len(seen) > 0.8 * STEPS * CLASSES * SAMPLES  # of 320 images, 120 draws give about 100 different ones
    assert {int(labels[row]) for row in seen} == set(range(BASE))


def check_novel_batches(batches: list[Batch], pool: Tensor, shots: np.ndarray, session: Session) -> None:
    """Samples of some of all classes seen, from the pool; then every shot of the session."""
    assert len(batches) == FEW
    count, seen = CLASSES * SAMPLES, session.classes.stop
    assert pool.shape[:2] == (seen, -(-FEW * count // seen))  # as many as the steps can ask for
    asked, taken = set(), set()
    for x, names in batches:
        drawn, named = x[:, :count].transpose(0, 1).flatten(1), names[:count].tolist()
        assert np.allclose(x[:, count:], shots, atol=1e-5)
        assert torch.equal(names[count:], session.labels)
        assert sorted(np.bincount(named, minlength=seen))[-CLASSES:] == [SAMPLES] * CLASSES
        for row, name in zip(drawn, named, strict=True):
            (found,) = torch.nonzero((pool[name].flatten(1) == row).all(1)).T
            assert len(found) == 1
            asked.add(name)
            taken.add((name, int(found)))
    assert len(asked) >= seen - 2
    assert len(taken) > 0.5 * FEW * count


@pytest.mark.parametrize("joint", [False, True])
def test_what_is_replayed_has_the_statistics_of_its_class(joint: bool, pools: list[Tensor]) -> None:
    """Means and covariances by numpy: of a base class its own, of a new one those lent, layer by layer."""
    sessions, _ = make_world()
    method = YourSelf(layers=BLOCKS, joint=joint, whitened=0.0, base_steps=0, novel_steps=4000, jitter=1e-6, pool=3000)
    method._train = lambda *_: None  # type: ignore[method-assign]
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    method.fit_base(sessions[0])
    base, labels = stacked(sessions[0].view), sessions[0].labels.numpy()
    if joint:
        base = np.concatenate(list(base), 1)[None]
    twins = [PlainGaussians(x, labels, method.jitter, method.top_k) for x in base]
    for session in sessions[1:]:
        method.fit_novel(session)
        shots = stacked(session.view)
        for twin, x in zip(twins, np.concatenate(list(shots), 1)[None] if joint else shots, strict=True):
            twin.add(x, session.labels.numpy(), session.classes)
    assert len(pools) == len(sessions) - 1
    assert not torch.equal(pools[0][0], pools[1][0])  # other samples in every session
    kinds = pools[-1].shape[2]
    assert kinds == (1 if joint else 1 + len(BLOCKS))
    for kind, twin in enumerate(twins):
        for c, (mean, covariance) in enumerate(zip(twin.means, twin.covariances, strict=True)):
            factor = method.gaussians_.factors[c, kind].double().numpy()
            assert np.allclose(factor @ factor.T, covariance, atol=1e-4)
            drawn = pools[-1][c, :, kind].double().numpy()
            assert np.allclose(drawn.mean(0), mean, atol=0.04)
            assert np.abs(np.cov(drawn.T) - covariance).max() < 0.05
    if not joint:
        first, second = pools[-1][0, :, 0].double().numpy(), pools[-1][0, :, 1].double().numpy()
        assert np.abs(np.cov(first.T, second.T)[DIM:, :DIM]).max() < 0.05  # layers are drawn apart
        # They also lend from different classes, or the test above would not see it.
        borrowed = [twin.covariances[-1] for twin in twins]
        assert not np.allclose(borrowed[0], borrowed[1], atol=1e-3)


def learning_batches(session: Session, **options: Any) -> list[Batch]:
    """What one session after the base session is learned from."""
    method = Observed(layers=BLOCKS, base_steps=0, novel_steps=200, **options)
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    method.fit_base(make_world()[0][0])
    method.fit_novel(session)
    return method.batches


def test_without_replay_a_session_learns_from_its_own_shots() -> None:
    session = make_world()[0][1]
    for x, labels in learning_batches(session, replay=False):
        assert np.array_equal(x.double(), stacked(session.view))
        assert torch.equal(labels, session.labels)


@pytest.mark.parametrize("joint", [False, True])
def test_without_a_pool_every_step_draws_anew(joint: bool) -> None:
    """Every sample once, and all of a class with the mean and the spread it is remembered by."""
    sessions, _ = make_world()
    batches = learning_batches(sessions[1], joint=joint, pool=0, whitened=0.0)
    drawn = torch.cat([x[:, : -len(sessions[1])] for x, _ in batches], 1).transpose(0, 1).flatten(1)
    labels = torch.cat([names[: -len(sessions[1])] for _, names in batches])
    assert len(torch.unique(drawn, dim=0)) == len(drawn) == 200 * 10 * 8
    real, of = stacked(sessions[0].view).transpose(1, 0, 2).reshape(len(sessions[0]), -1), sessions[0].labels.numpy()
    for c in range(BASE):
        mine = drawn[labels == c].numpy()
        assert np.allclose(mine.mean(0), real[of == c].mean(0), atol=0.05)
        assert np.allclose(mine.std(0), real[of == c].std(0, ddof=1), atol=0.05)


def base_and_novel(method: Method) -> tuple[float, float]:
    """Accuracies in percent after two sessions of the layered world."""
    sessions, exams = make_layered_world()
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    for session in sessions:
        (method.fit_novel if session.index else method.fit_base)(session)
    right = [100 * float((method.scores(view).argmax(1) == labels).double().mean()) for view, labels in exams]
    return right[0], (right[1] + right[2]) / 2


def published(**changes: Any) -> tuple[float, float]:
    size = {"layers": (2, 3), "batch_classes": 12, "batch_samples": 8, "base_steps": 200, "novel_steps": 100}
    return base_and_novel(YourSelf(**{**PUBLISHED, **size, "first_step": "dampened", **changes}))


@pytest.fixture(scope="module")
def learned_as_published() -> tuple[float, float]:
    return published()


def test_the_published_combination_learns(learned_as_published: tuple[float, float]) -> None:
    base, novel = learned_as_published
    means_base, means_novel = base_and_novel(make("prototypes"))
    assert means_novel < 35  # the final features alone do not tell the new classes apart
    assert novel > means_novel + 40
    assert base > means_base - 8


def test_it_learns_with_the_released_first_step_too() -> None:
    """Ten times the rate in the first step of a session throws the modules off; more steps bring them back."""
    base, novel = published(first_step="released", base_steps=400, novel_steps=400)
    assert base > 60
    assert novel > 60


@pytest.mark.parametrize("change", [{"weight_cr": 0.0}, {"replay": False}], ids=["class relation", "replay"])
def test_what_protects_the_base_classes(change: dict[str, Any], learned_as_published: tuple[float, float]) -> None:
    assert published(**change)[0] < learned_as_published[0] - 20


def test_novel_cross_entropy_is_what_new_classes_are_learned_by(learned_as_published: tuple[float, float]) -> None:
    assert published(weight_novel=0.0)[1] < learned_as_published[1] - 10


@pytest.mark.parametrize("rate", [0.1, torch.tensor(0.1)], ids=["number", "tensor"])
@pytest.mark.parametrize("first_step", ["released", "dampened"])
def test_sgd_by_hand(first_step: Any, rate: float | Tensor) -> None:
    """The first gradient fills the momentum as it is, or is dampened like every other."""
    gradients = np.random.default_rng(0).normal(size=(4, 5))
    weight = torch.nn.Parameter(torch.ones(5))
    optimizer = dampened_sgd([weight], rate, 0.9, 0.8, first_step)
    expected, momentum = np.ones(5), np.zeros(5)
    for step, gradient in enumerate(gradients):
        weight.grad = torch.from_numpy(gradient).float()
        optimizer.step()
        undampened = step == 0 and first_step == "released"
        momentum = gradient if undampened else 0.9 * momentum + 0.2 * gradient
        expected = expected - 0.1 * momentum
        assert np.allclose(weight.detach(), expected, atol=1e-6)

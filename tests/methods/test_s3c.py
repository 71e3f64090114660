"""S3C: Gaussian rows for every class and turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, DIM, make_world
from tiny_benchmark import CPU, DEPTH, exam_view, prepared, tiny_benchmark, tiny_network

from fscil.backbones import CosineHead
from fscil.backbones.extract import extract
from fscil.core.errors import InputError
from fscil.data import Session
from fscil.methods.s3c import S3C
from fscil.objectives.s3c import TokenAttention


def started(**options: object) -> S3C:
    method = S3C(**options)  # type: ignore[arg-type]
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def trained_base(session: Session, turns: int = 4, older: bool = False) -> Session:
    """The base session as a network trained with the objective would bring it; older ones have the rows as their head.

    Else their own head is something else.
    """
    torch.manual_seed(0)
    block = {f"attention.{name}": value for name, value in TokenAttention(16).state_dict().items()}
    network = dataclasses.replace(tiny_network()).classifier
    rows = torch.randn(turns * 8, 16)
    head = CosineHead(16, len(rows) if older else 8, 16.0).requires_grad_(False)
    if older:
        head.weight.copy_(rows)
    other = torch.nn.ModuleDict({"backbone": network.backbone, "head": head})
    extras = {**block, "sigma": torch.randn(turns * 8, 16), **({} if older else {"mu": rows})}
    return dataclasses.replace(session, extras=extras, network=_Network(other))


class _Network:
    def __init__(self, parts: torch.nn.ModuleDict) -> None:
        self.backbone, self.head = parts["backbone"], parts["head"]


def test_scores_are_the_mean_over_turns_of_each_turns_own_rows() -> None:
    method, benchmark, backbone = started(steps=0), tiny_benchmark(), tiny_network().backbone
    base = prepared(method, benchmark)[0]
    method.fit_base(base)
    view = exam_view(method, benchmark)
    images = benchmark.session(0).images
    assert images is not None
    expected = torch.zeros(len(view), 8)
    for turns in range(4):
        x = F.normalize(extract(backbone, benchmark.exam(0).images.rot90(turns, (1, 2))).final, dim=-1)
        shots = extract(backbone, images.rot90(turns, (1, 2))).final
        means = torch.stack([shots[base.labels == c].mean(0) for c in base.classes])
        expected += 16 * x @ F.normalize(means, dim=-1).T / 4
    assert torch.allclose(method.scores(view), expected, atol=1e-4)
    assert torch.equal(method.scores(view), method.scores(view))  # no noise at test time


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("rows", ["head", "auto"])
def test_trained_rows_are_read_turn_by_turn(rows: str, older: bool) -> None:
    method = started(rows=rows)
    base = trained_base(prepared(method, tiny_benchmark())[0], older=older)
    method.fit_base(base)
    weight, sigma = base.network.head.weight if older else base.extras["mu"], base.extras["sigma"]
    assert method.turns_ == 4
    for turn in range(4):
        for c in range(8):  # as base training labels them: class + classes * turn
            assert torch.equal(method.mu_[turn, c], weight[c + 8 * turn])
            assert torch.equal(method.sigma_[turn, c], sigma[c + 8 * turn])
    # Before any session has come, a question about turned images is answered by these rows.
    benchmark = tiny_benchmark()
    view = exam_view(method, benchmark)
    block, expected = TokenAttention.of(method.attention_).eval(), torch.zeros(len(view), 8)
    for turn in range(4):
        x = block(extract(base.network.backbone, benchmark.exam(0).images.rot90(turn, (1, 2))).final)
        expected += 4 * F.normalize(x, dim=-1) @ F.normalize(weight[8 * turn : 8 * turn + 8], dim=-1).T
    assert torch.allclose(method.scores(view), expected, atol=1e-4)


def test_the_trained_attention_block_is_used_and_prototypes_come_from_it() -> None:
    method = started()
    base = trained_base(prepared(method, tiny_benchmark())[0])
    method.fit_base(base)
    assert base.view is not None
    x, p = base.view.final, base.extras
    token = x + x @ p["attention.value.weight"].T @ p["attention.output.weight"].T + p["attention.output.bias"]
    token = F.layer_norm(token, (16,))
    expected = torch.stack([token[base.labels == c].mean(0) for c in base.classes])
    assert torch.allclose(method.old_, expected, atol=1e-4)


def test_a_session_moves_rows_of_seen_classes_and_nothing_else() -> None:
    method, benchmark = started(), tiny_benchmark()
    sessions = prepared(method, benchmark)
    base = trained_base(sessions[0])
    method.fit_base(base)
    weights = {name: value.clone() for name, value in tiny_network().classifier.state_dict().items()}
    block, mu, sigma, old = dict(method.attention_), method.mu_.clone(), method.sigma_.clone(), method.old_.clone()
    method.fit_novel(dataclasses.replace(sessions[1], network=base.network))
    assert method.mu_.shape == method.sigma_.shape == (4, 10, 16)
    assert not torch.equal(method.mu_[:, :8], mu)  # old rows too
    assert not torch.equal(method.sigma_[:, :8], sigma)
    assert torch.equal(method.old_[:8], old)  # the memory is only added to
    assert all(torch.equal(value, method.attention_[name]) for name, value in block.items())
    assert all(torch.equal(value, weights[name]) for name, value in tiny_network().classifier.state_dict().items())
    assert torch.equal(base.extras["sigma"], torch.cat(list(sigma)))  # what was handed over is as it was


def test_one_step_by_hand() -> None:
    """Without noise: SGD on lambda * CE(stored prototypes) + CE(shots), with the first step damped by nothing."""
    sessions, _ = make_world()
    method = started(steps=1, lr=0.5, weight_old=3.0)
    method.fit_base(sessions[0])
    method.sigma_.fill_(-100.0)
    new_sigma = sessions[1]
    assert new_sigma.view is not None
    means = torch.stack([new_sigma.view.final[new_sigma.labels == c].mean(0) for c in new_sigma.classes])
    mu = torch.cat([method.mu_[0], F.normalize(means, dim=-1)]).requires_grad_()
    old = method.old_.clone()

    def logits(x: torch.Tensor) -> torch.Tensor:
        return 16 * F.normalize(x, dim=-1) @ F.normalize(mu, dim=-1).T

    loss = 3 * F.cross_entropy(logits(old), torch.arange(BASE))
    loss = loss + F.cross_entropy(logits(new_sigma.view.final), new_sigma.labels)
    loss.backward()
    assert mu.grad is not None
    method.fit_novel(new_sigma)
    # The rows of new classes have the noise of sigma = 0, which is small and moves everything a little.
    step = (method.mu_[0] - mu.detach()) / -0.5
    assert F.cosine_similarity(step.flatten(), mu.grad.flatten(), dim=0) > 0.95
    assert mu.shape == (BASE + 2, DIM)


def test_a_whole_session_against_a_slow_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps of SGD written out, image by image and turn by turn, with the noise and dropout that were drawn."""
    method, sessions = started(steps=3, lr=0.3, weight_old=5.0), prepared(started(), tiny_benchmark())
    base, session = trained_base(sessions[0]), sessions[1]
    method.fit_base(base)
    start_mu, start_sigma, old = method.mu_.clone(), method.sigma_.clone(), method.old_.clone()
    drawn: dict[str, list[torch.Tensor]] = {"rand": [], "randn": []}
    for name in drawn:
        real = getattr(torch, name)

        def remembered(
            *shape: object, real: Callable[..., torch.Tensor] = real, name: str = name, **rest: object
        ) -> torch.Tensor:
            drawn[name].append(real(*shape, **rest))
            return drawn[name][-1]

        monkeypatch.setattr(torch, name, remembered)
    method.fit_novel(dataclasses.replace(session, network=base.network))
    p, view, labels, seen = base.extras, session.view, session.labels.tolist(), session.classes.stop
    assert view is not None
    features = [view.final, *(view.turned[turn, 0] for turn in (1, 2, 3))]

    def token(x: torch.Tensor, one: torch.Tensor | None = None, many: torch.Tensor | None = None) -> torch.Tensor:
        value = p["attention.value.weight"] @ x * (1.0 if one is None else (one >= 0.1) / 0.9)
        added = p["attention.output.weight"] @ value + p["attention.output.bias"]
        return F.layer_norm(x + added * (1.0 if many is None else (many >= 0.5) / 0.5), (16,))

    def mean(x: torch.Tensor, c: int) -> torch.Tensor:
        return torch.stack([token(x[n]) for n, y in enumerate(labels) if y == c]).mean(0)

    new = torch.stack([torch.stack([mean(x, c) for c in session.classes]) for x in features])
    rows = [torch.cat([start_mu, new], 1), torch.cat([start_sigma, torch.zeros_like(new)], 1)]
    momentum = [torch.zeros_like(each) for each in rows]
    for step in range(3):
        mu, sigma = (each.clone().requires_grad_() for each in rows)
        weights = (mu + F.softplus(sigma - 4) * drawn["randn"][step]).reshape(4 * seen, 16)
        one, many = drawn["rand"][2 * step : 2 * step + 2]

        def surprise(x: torch.Tensor, label: int, weights: torch.Tensor = weights) -> torch.Tensor:
            return F.cross_entropy((16 * F.cosine_similarity(x[None], weights))[None], torch.tensor([label]))

        shots = [
            surprise(token(x[n], one[turn * len(labels) + n], many[turn * len(labels) + n]), turn * seen + y)
            for turn, x in enumerate(features)
            for n, y in enumerate(labels)
        ]
        kept = [surprise(x, c) for c, x in enumerate(old)]  # a stored prototype knows its unturned row alone
        gradients = torch.autograd.grad(5.0 * torch.stack(kept).mean() + torch.stack(shots).mean(), [mu, sigma])
        # The first gradient fills the momentum as it is; later ones count a tenth.
        momentum = [0.9 * m + (0.1 if step else 1.0) * g for m, g in zip(momentum, gradients, strict=True)]
        rows = [each - 0.3 * m for each, m in zip(rows, momentum, strict=True)]
    for got, expected, start in ((method.mu_, rows[0], start_mu), (method.sigma_, rows[1], start_sigma)):
        assert torch.allclose(got, expected, atol=2e-4)
        assert float((got[:, :8] - start).norm()) > 0.01
    assert torch.allclose(method.old_[8:], new[0], atol=1e-5)


def test_tuning_helps_the_shots() -> None:
    sessions, _ = make_world(spread=1.0)
    losses = []
    for steps in (0, 200):
        method = started(steps=steps)
        method.fit_base(sessions[0])
        method.fit_novel(sessions[1])
        assert sessions[1].view is not None
        losses.append(F.cross_entropy(method.scores(sessions[1].view), sessions[1].labels).item())
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"turns": 3}, "turns must be"), ({"rows": "x"}, "rows must be"), ({"lr": 0.0}, "lr must be a number above 0")],
)
def test_bad_options_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        started(**options)


def test_what_a_network_does_not_have_is_said() -> None:
    sessions, _ = make_world()
    with pytest.raises(InputError, match=r"train\.objective=s3c"):
        started(rows="head").fit_base(sessions[0])
    method = started(turns=4)
    base = trained_base(prepared(method, tiny_benchmark())[0], turns=1)
    with pytest.raises(InputError, match=r"train\.augment\.turn"):
        method.fit_base(base)


def test_the_first_step_of_a_session_is_ten_times_the_dampened_one() -> None:
    """As released, dampening 0.9 leaves the first gradient whole."""
    sessions, _ = make_world()
    rows = {}
    for steps, first_step in ((0, "released"), (1, "released"), (1, "dampened")):
        method = started(steps=steps, first_step=first_step, lr=10.0)
        method.fit_base(sessions[0])
        method.fit_novel(sessions[1])
        rows[steps, first_step] = method.mu_
    at_first = rows[0, "released"]
    assert (rows[1, "dampened"] - at_first).norm() > 1e-4
    assert torch.allclose(rows[1, "released"] - at_first, 10 * (rows[1, "dampened"] - at_first), atol=1e-5)

"""YourSelf: each part against a plain, slow twin."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, DIM, make_world
from torch import nn

from fscil.backbones.rectifier import Rectifier
from fscil.core.errors import InputError
from fscil.data.session import View
from fscil.methods import YourSelf, make
from fscil.methods.gaussians import ClassGaussians
from fscil.methods.relations import (
    class_relation,
    cosine_constraint,
    cross_entropy,
    instance_relation,
    through_directions,
    with_gradient,
)

QUICK = {"layers": (2, 3), "base_steps": 20, "novel_steps": 15}


def learned(**options: object) -> YourSelf:
    method = make("yourself", {**QUICK, **options})
    assert isinstance(method, YourSelf)
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    sessions, _ = make_world()
    method.fit_base(sessions[0])
    for session in sessions[1:]:
        method.fit_novel(session)
    return method


def test_stacked_modules_equal_separate_networks() -> None:
    stacked = Rectifier(3, DIM, residual=False, generator=torch.Generator().manual_seed(1))
    final, layers = torch.randn(7, DIM), torch.randn(3, 7, DIM)

    def mlp(part: nn.Module, branch: int, x: torch.Tensor) -> torch.Tensor:
        first, last = part.first, part.last
        hidden = F.gelu(x @ first.weight[branch] + first.bias[branch])
        normed = F.layer_norm(hidden, hidden.shape[-1:], part.norm_weight[branch, 0], part.norm_bias[branch, 0])
        return normed @ last.weight[branch] + last.bias[branch]

    for branch in range(3):
        both = torch.cat([mlp(stacked.read, branch, final), mlp(stacked.read, 3 + branch, layers[branch])], -1)
        expected = mlp(stacked.mix, branch, both)
        assert torch.allclose(stacked(final, layers)[branch], expected, atol=1e-5)


def test_a_file_with_the_two_readers_apart_still_loads() -> None:
    """As stored before they were one stack; the embeddings that come with the package are of that kind."""
    module = Rectifier(2, DIM, residual=True, generator=torch.Generator().manual_seed(1))
    nn.init.normal_(module.mix.last.weight)
    old = {}
    for name, value in module.state_dict().items():
        if name.startswith("read."):
            old[name.replace("read", "from_final", 1)], old[name.replace("read", "from_layer", 1)] = value.chunk(2)
        else:
            old[name] = value
    again = Rectifier(2, DIM, residual=True, generator=torch.Generator())
    again.load_state_dict(old)
    final, layers = torch.randn(5, DIM), torch.randn(2, 5, DIM)
    assert torch.equal(again(final, layers), module(final, layers))
    with pytest.raises(RuntimeError, match=r"read\.first\.weight"):
        again.load_state_dict({name: value for name, value in old.items() if name != "from_layer.first.weight"})


def test_parameter_count_follows_from_the_released_sizes() -> None:
    """M_I and M_F are 256-512-256, M_mix 512-512-256: 0.92M a module. (The paper's text says 0.6M.)"""
    module = Rectifier(1, 256, residual=False, generator=torch.Generator())
    narrow = (256 * 512 + 512) + 2 * 512 + (512 * 256 + 256)
    wide = (512 * 512 + 512) + 2 * 512 + (512 * 256 + 256)
    assert sum(p.numel() for p in module.parameters()) == 2 * narrow + wide


def test_residual_starts_at_the_final_features() -> None:
    module = Rectifier(2, DIM, residual=True, generator=torch.Generator().manual_seed(0))
    final = torch.randn(5, DIM)
    assert torch.equal(module(final, torch.randn(2, 5, DIM)), final.expand(2, -1, -1))


def slope(loss: Any, x: torch.Tensor) -> torch.Tensor:
    """The gradient as autograd finds it, of a loss written with torch's own functions."""
    x = x.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x), x)
    return gradient


@pytest.mark.parametrize(("intra", "inter", "n"), [(0.7, 0.2, 33), (1.0, 0.0, 6), (0.0, 1.0, 6)])
def test_instance_relation_against_loops(intra: float, inter: float, n: int) -> None:
    generator = torch.Generator().manual_seed(0)
    rectified, layers = torch.randn(2, n, 4, generator=generator), torch.randn(2, n, 4, generator=generator)
    rectified[0] *= 3  # gaps beyond 1, where smooth L1 is straight
    labels = torch.tensor([0, 0, 1, 1, 1, 2]).repeat(6)[:n]

    def slow(x: torch.Tensor) -> torch.Tensor:
        sums, counts = {True: torch.zeros(()), False: torch.zeros(())}, {True: 0, False: 0}
        for i in range(n):
            for j in range(n):
                same = bool(labels[i] == labels[j])
                counts[same] += i != j
                for branch in range(2 * (i != j)):
                    gap = ((x[branch, i] - x[branch, j]).norm() - (layers[branch, i] - layers[branch, j]).norm()).abs()
                    sums[same] = sums[same] + (gap**2 / 2 if gap < 1 else gap - 0.5)
        return intra * sums[True] / counts[True] + inter * sums[False] / counts[False]

    loss, gradient = instance_relation(rectified, layers, labels, intra, inter)
    assert float(loss) == pytest.approx(float(slow(rectified)), abs=1e-4)
    assert torch.allclose(gradient, slope(slow, rectified), atol=1e-5)


def test_instance_relation_is_zero_for_equal_geometry_and_has_finite_gradients() -> None:
    x = torch.randn(1, 5, 4)
    x[0, 1] = x[0, 0]  # a distance of exactly zero
    loss, gradient = instance_relation(x + 3, x, torch.tensor([0, 0, 1, 1, 2]), 1.0, 1.0)
    assert loss.item() == pytest.approx(0, abs=1e-5)
    assert torch.isfinite(gradient).all()
    for labels in (torch.arange(5), torch.zeros(5, dtype=torch.long)):  # no pair of one class, none of two
        for intra, inter in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0)):
            assert all(torch.isfinite(part).all() for part in instance_relation(x, 2 * x, labels, intra, inter))


@pytest.mark.parametrize("reverse", [False, True])
def test_class_relation_is_the_divergence_from_the_intermediate_prediction(reverse: bool) -> None:
    rectified, layer = torch.randn(2, 2, 3, 5).double()

    def slow(logits: torch.Tensor) -> torch.Tensor:
        p, q = layer.softmax(-1), logits.softmax(-1)
        p, q = (q, p) if reverse else (p, q)
        return 0.3 * (p * (p / q).log()).sum(-1).mean(1).sum()

    loss, gradient = class_relation(rectified.log_softmax(-1), layer.log_softmax(-1), 0.3, reverse)
    assert float(loss) == pytest.approx(float(slow(rectified)))
    assert torch.allclose(gradient, slope(slow, rectified))
    same = class_relation(layer.log_softmax(-1), layer.log_softmax(-1), 0.3, reverse)
    assert float(same[0]) == pytest.approx(0, abs=1e-12)


def test_cosine_constraint_and_its_pull_on_features() -> None:
    x, final = torch.randn(2, 4, DIM).double(), torch.randn(4, DIM).double()

    def slow(x: torch.Tensor) -> torch.Tensor:
        return 0.7 * (1 - F.cosine_similarity(x, final.expand_as(x), dim=-1)).mean(1).sum()

    lengths = x.norm(dim=-1, keepdim=True)
    loss, gradient = cosine_constraint(x / lengths, F.normalize(final, dim=-1), 0.7)
    assert float(loss) == pytest.approx(float(slow(x)))
    assert torch.allclose(through_directions(gradient, x / lengths, lengths), slope(slow, x))


def test_weighted_cross_entropy() -> None:
    logits, labels = torch.randn(2, 4, 3).double(), torch.tensor([0, 1, 2, 1])
    weight = torch.tensor([0.0, 0.5, 0.25, 0.0]).double()

    def slow(logits: torch.Tensor) -> torch.Tensor:
        each = [F.cross_entropy(logits[b, i], labels[i]) * weight[i] for b in range(2) for i in range(4)]
        return torch.stack(each).sum()

    loss, gradient = cross_entropy(logits.log_softmax(-1), labels, weight)
    assert float(loss) == pytest.approx(float(slow(logits)))
    assert torch.allclose(gradient, slope(slow, logits))


def test_a_loss_with_its_gradient_is_followed_back() -> None:
    x = torch.randn(3, requires_grad=True)
    (2 * with_gradient(x, (torch.tensor(5.0), torch.tensor([1.0, 2.0, 3.0])))).backward()
    assert torch.equal(x.grad, torch.tensor([2.0, 4.0, 6.0]))


def test_the_loss_is_the_sum_of_its_parts_as_torch_computes_them() -> None:
    """All of _loss against torch's own cosine, divergence and cross-entropy, one call each."""
    torch.manual_seed(3)
    method = YourSelf(layers=(1, 2), weight_cos=0.7, weight_cr=0.4, weight_intra=0.0, weight_novel=0.6, weight_all=0.2)
    method.chosen_, method.session_, method.base_classes_, method.widths_ = (1, 2), 1, 3, (DIM,) * 3
    method.means_ = F.normalize(torch.randn(3, 5, DIM), dim=-1)
    method.rectifier_ = Rectifier(2, DIM, residual=False, generator=torch.Generator().manual_seed(0))
    stacked, labels = torch.randn(3, 6, DIM), torch.tensor([0, 1, 2, 3, 4, 4])
    expected = torch.zeros(())
    for branch, x in enumerate(method.rectifier_(stacked[0], stacked[1:])):
        logits = method.scale * F.normalize(x, dim=-1) @ method.means_[0].T
        layer = method.scale * F.normalize(stacked[1 + branch], dim=-1) @ method.means_[1 + branch].T
        expected += 0.7 * (1 - F.cosine_similarity(x, stacked[0])).mean()
        expected += 0.4 * F.kl_div(logits.log_softmax(-1), layer.softmax(-1), reduction="batchmean")
        expected += 0.6 * F.cross_entropy(logits[3:], labels[3:]) + 0.2 * F.cross_entropy(logits, labels)
    assert float(method._loss(stacked, labels).detach()) == pytest.approx(
        float(torch.as_tensor(expected).detach()), rel=1e-5
    )


@pytest.mark.parametrize("groups", [1, 3])
def test_gaussians_recover_means_and_covariances(groups: int) -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(600, groups, 4)) @ rng.normal(size=(4, 4)) + 2).float()
    labels = torch.arange(600) % 3
    model = ClassGaussians(top_k=2, jitter=1e-6, base_classes=3)
    model.fit_base(x, labels)
    for c in range(3):
        for g in range(groups):
            own = x[labels == c, g].numpy()
            assert np.allclose(model.means[c, g], own.mean(0), atol=1e-4)
            assert np.allclose(model.covariances[c, g], np.cov(own.T), atol=1e-3)
    drawn = model.sample(torch.tensor([1]), 20000, torch.Generator().manual_seed(0))
    assert drawn.shape == (20000, groups, 4)
    assert np.allclose(np.cov(drawn[:, 0].T.numpy()), model.covariances[1, 0], atol=0.15)
    assert np.allclose(drawn[:, 0].mean(0), model.means[1, 0], atol=0.1)


def test_a_novel_class_borrows_from_its_nearest_base_classes() -> None:
    model = ClassGaussians(top_k=2, jitter=1e-6, base_classes=3)
    x = torch.randn(300, 1, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 2.0, 3.0])
    centres = torch.tensor([[9.0, 0, 0], [9.0, 1, 0], [0, 0, 9.0]])
    labels = torch.arange(300) % 3
    model.fit_base(x + centres[labels][:, None], labels)
    model.add_novel(torch.tensor([[[8.0, 0.5, 0.0]]]))
    borrowed = model.factors[3, 0] @ model.factors[3, 0].T
    assert torch.allclose(borrowed, (model.covariances[0, 0] + model.covariances[1, 0]) / 2, atol=1e-3)


def test_a_pool_holds_samples_of_every_class_with_its_own_spread() -> None:
    generator = torch.Generator().manual_seed(0)
    spread = torch.tensor([0.1, 1.0, 3.0])
    labels = torch.arange(3).repeat_interleave(400)
    centres = 20 * torch.eye(3, 4)
    x = torch.randn(1200, 1, 4, generator=generator) * spread[labels][:, None, None] + centres[labels][:, None]
    model = ClassGaussians(top_k=1, jitter=1e-6, base_classes=3)
    model.fit_base(x, labels)
    model.add_novel(centres[2].expand(7, 1, 4) + 1)  # more classes than are drawn at once; like class 2
    pool = model.pool(2000, generator)
    assert pool.shape == (10, 2000, 1, 4)
    assert torch.allclose(pool.mean(1)[:3, 0], centres, atol=0.5)
    assert torch.allclose(pool.mean(1)[3:, 0], (centres[2] + 1).expand(7, 4), atol=0.5)
    deviations = pool.std(1).mean((1, 2))
    assert torch.allclose(deviations, torch.tensor([0.1, 1.0, 3.0, *[3.0] * 7]), rtol=0.15)


def test_a_class_with_one_image_still_has_a_gaussian() -> None:
    model = ClassGaussians(top_k=2, jitter=1e-4, base_classes=2)
    model.fit_base(torch.randn(3, 1, 8), torch.tensor([0, 0, 1]))
    assert torch.isfinite(model.sample(torch.tensor([0, 1]), 4, torch.Generator())).all()


@pytest.mark.parametrize(
    "loss", ["weight_cos", "weight_novel", "weight_cr", "weight_intra", "weight_inter", "weight_all"]
)
def test_every_loss_can_be_switched_off_and_on(loss: str) -> None:
    _, exams = make_world()
    off, on = learned(**{loss: 0.0}), learned(**{loss: 0.8})
    assert not torch.equal(off.scores(exams[1][0]), on.scores(exams[1][0]))


def test_without_any_loss_the_residual_form_is_the_baseline() -> None:
    silent = dict.fromkeys(
        ("weight_cos", "weight_novel", "weight_cr", "weight_intra", "weight_inter", "weight_all"), 0.0
    )
    method = make("yourself", {**QUICK, **silent, "base_steps": 0, "novel_steps": 0})
    baseline = make("prototypes")
    sessions, exams = make_world()
    for m in (method, baseline):
        m.start(seed=0, depth=4, device=torch.device("cpu"))
        m.fit_base(sessions[0])
        m.fit_novel(sessions[1])
    for view, _ in exams[:2]:
        assert torch.equal(method.scores(view).argmax(1), baseline.scores(view).argmax(1))


@pytest.mark.parametrize(
    "option",
    [
        {"residual": False},
        {"joint": False},
        {"own_relations": False},
        {"reverse_relations": True},
        {"prototypes": "head"},
        {"ensemble": "logits"},
    ],
    ids=lambda option: "-".join(map(str, option)),
)
def test_what_paper_and_code_do_is_offered(option: dict[str, object]) -> None:
    _, exams = make_world()
    changed, usual = learned(**option).scores(exams[1][0]), learned().scores(exams[1][0])
    assert torch.isfinite(changed).all()
    assert not torch.equal(changed, usual)


def test_ensemble_is_the_mean_of_its_branches() -> None:
    method, (_, exams) = learned(whitened=0.0), make_world()
    view = exams[0][0]
    alone = [scorer(view) for scorer in method.variants().values()]
    assert list(method.variants()) == ["block 2", "block 3"]
    assert torch.allclose(method.scores(view), torch.stack([F.softmax(s, -1) for s in alone]).mean(0), atol=1e-6)


def test_whitened_features_are_a_share_of_the_ensemble_and_of_nothing_else() -> None:
    without, method, (_, exams) = learned(whitened=0.0), learned(whitened=0.4), make_world()
    view = exams[1][0]
    parts = {name: scorer(view) for name, scorer in method.variants().items()}
    assert list(parts) == ["block 2", "block 3", "rectified", "whitened"]
    assert torch.equal(parts["rectified"], without.scores(view))  # what is trained is the same
    whole = 0.6 * parts["rectified"] + 0.4 * F.softmax(parts["whitened"], -1)
    assert torch.allclose(method.scores(view), whole, atol=1e-6)
    only = learned(whitened=1.0)
    assert torch.allclose(only.scores(view), F.softmax(parts["whitened"], -1), atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"centring": 0.6, "whitened_centring": 0.8}, {"whitened_final": False, "whitened_centring": 0.0}]
)
def test_whitened_scores_are_cosines_to_class_means(options: dict[str, Any]) -> None:
    """Written again with numpy, class by class. What is taken off for the rectifier makes no difference here."""
    method, (sessions, exams) = learned(shrinkage=0.5, **options), make_world()

    def joined(view: View) -> np.ndarray:
        final = [view.final.numpy()] * options.get("whitened_final", True)
        return np.concatenate([*final, *[view.layers[b].numpy() for b in (2, 3)]], 1).astype(np.float64)

    base, labels = joined(sessions[0].view), sessions[0].labels.numpy()
    inside = np.concatenate([base[labels == c] - base[labels == c].mean(0) for c in range(BASE)])
    covariance = inside.T @ inside / (len(base) - BASE)
    covariance += 0.5 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    values, vectors = np.linalg.eigh(covariance)
    root = vectors @ np.diag(values**-0.5) @ vectors.T

    def unit(x: np.ndarray) -> np.ndarray:
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    means, centre = [], options.get("whitened_centring", 1.0) * base.mean(0)
    for session in sessions:
        white = unit((joined(session.view) - centre) @ root)
        means += [unit(white[session.labels.numpy() == c].mean(0)) for c in session.classes]
    expected = 16 * unit((joined(exams[1][0]) - centre) @ root) @ np.array(means).T
    assert np.allclose(method.whitened_scores(exams[1][0]).numpy(), expected, atol=1e-2)


def test_with_every_weight_at_zero_nothing_is_learned() -> None:
    off = dict.fromkeys(("weight_cos", "weight_novel", "weight_all", "weight_cr", "weight_intra", "whitened"), 0.0)
    method, (_, exams) = learned(**off), make_world()
    view = exams[0][0]
    expected = F.softmax(method.scale * F.normalize(view.final, dim=-1) @ method.means_[0].T, dim=-1)
    assert torch.allclose(method.scores(view), expected, atol=1e-5)


def test_centred_features_are_rectified_as_if_they_had_come_so() -> None:
    sessions, exams = make_world()
    common = torch.stack([sessions[0].view.final, *[sessions[0].view.layers[b] for b in (2, 3)]]).mean(1)

    def moved(view: View) -> View:
        return View(view.final - common[0], {b: view.layers[b] - common[i] for i, b in ((1, 2), (2, 3))})

    by_hand = make("yourself", {**QUICK, "centring": 0.0, "whitened": 0.0})
    by_hand.start(seed=0, depth=4, device=torch.device("cpu"))
    for session in sessions:
        learn = by_hand.fit_novel if session.index else by_hand.fit_base
        learn(dataclasses.replace(session, view=moved(session.view)))
    centred = learned(centring=1.0, whitened=0.0)
    assert torch.allclose(centred.scores(exams[1][0]), by_hand.scores(moved(exams[1][0])), atol=1e-4)


def test_layers_default_to_the_three_before_the_last() -> None:
    assert YourSelf().blocks(12) == (9, 10, 11)
    assert YourSelf().blocks(3) == (1, 2)
    assert YourSelf(layers=(8, 9, 10)).blocks(12) == (8, 9, 10)


def test_bad_choices_are_refused() -> None:
    numbers = ({"whitened": 1.5}, {"centring": -0.1}, {"whitened_centring": 2.0}, {"shrinkage": 0.0})
    for bad in (*numbers, {"prototypes": "mean"}, {"ensemble": "vote"}):
        with pytest.raises(InputError, match="must be"):
            make("yourself", bad).start(seed=0, depth=4, device=torch.device("cpu"))
    sessions, _ = make_world()
    method = make("yourself", {**QUICK, "prototypes": "head"})
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    with pytest.raises(InputError, match="classifier"):
        method.fit_base(dataclasses.replace(sessions[0], head=None))


def test_base_prototypes_can_be_the_classifiers_weights() -> None:
    sessions, _ = make_world()
    method = learned(prototypes="head")
    assert sessions[0].head is not None
    assert torch.allclose(method.means_[0, :BASE], F.normalize(sessions[0].head, dim=-1))

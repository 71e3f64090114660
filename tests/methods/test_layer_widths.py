"""Layers of other widths than the final features: stacks, FR modules, Gaussians, layer methods on a small CNN."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from feature_worlds import make_world
from tiny_benchmark import BASE, CPU, tiny_benchmark
from torch import nn

from fscil.backbones.rectifier import Rectifier
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data import Session, View
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.methods import YourSelf, make
from fscil.methods.base import Method
from fscil.methods.gaussians import ClassGaussians
from fscil.methods.layer_stack import LayerStack, levelled
from fscil.methods.raw_layers import RawLayers
from fscil.training.checkpoint import Checkpoint, Classifier

WIDTHS = (6, 3, 9)


def parts() -> list[torch.Tensor]:
    return [torch.randn(5, width, generator=torch.Generator().manual_seed(width)) for width in WIDTHS]


def test_a_stack_comes_apart_again_and_zeros_change_nothing() -> None:
    stack, given = LayerStack(WIDTHS), parts()
    stacked = stack.stack(given)
    assert stacked.shape == (3, 5, 9)
    assert torch.equal(stack.joined(stacked), torch.cat(given, 1))
    assert torch.equal(stack.apart(torch.cat(given, 1)), stacked)
    for part, filled in zip(given, stacked, strict=True):
        assert torch.allclose(part.norm(dim=1), filled.norm(dim=1))
        assert torch.allclose(torch.cdist(part, part), torch.cdist(filled, filled), atol=1e-6)
    noisy = stack.emptied(stacked + 1)
    assert float(noisy[1, :, 3:].abs().max()) == 0
    assert torch.equal(noisy[0, :, :6], given[0] + 1)


def test_layers_are_levelled_only_where_they_differ() -> None:
    given = parts()
    for part, level in zip(given, levelled(given), strict=True):
        for row, scaled in zip(part.numpy(), level.numpy(), strict=True):
            assert scaled == pytest.approx(row / np.linalg.norm(row) * len(row) ** 0.5, rel=1e-5)
    assert all(one is other for one, other in zip(levelled(given[:1] * 2), given[:1] * 2, strict=True))


@pytest.mark.parametrize("hidden", [0, 4])
def test_fr_modules_read_layers_of_any_width(hidden: int) -> None:
    """Against torch's own layers, one at a time, on features that nobody filled up."""
    final, *layers = parts()
    module = Rectifier(2, 6, False, torch.Generator().manual_seed(0), WIDTHS[1:], hidden)
    found = module(final, LayerStack(WIDTHS).stack([final, *layers])[1:])

    def plain(stack: nn.Module, at: int, inputs: int) -> nn.Sequential:
        state, inside = {name: value[at].detach() for name, value in stack.state_dict().items()}, hidden or 12
        made = nn.Sequential(nn.Linear(inputs, inside), nn.GELU(), nn.LayerNorm(inside), nn.Linear(inside, 6))
        renamed = {
            **{"0.weight": state["first.weight"][:inputs].T, "0.bias": state["first.bias"][0]},
            **{"2.weight": state["norm_weight"][0], "2.bias": state["norm_bias"][0]},
            **{"3.weight": state["last.weight"].T, "3.bias": state["last.bias"][0]},
        }
        made.load_state_dict(renamed)
        return made

    for at, layer in enumerate(layers):
        read = [plain(module.read, at, 6)(final), plain(module.read_layer, at, layer.shape[1])(layer)]
        assert torch.allclose(found[at], plain(module.mix, at, 12)(torch.cat(read, 1)), atol=1e-5)
    bound = module.read_layer.first.weight[0].detach().abs().max()
    assert 3**-0.5 * 0.5 < float(bound) <= 3**-0.5  # as nn.Linear starts with three inputs


def test_gaussians_of_few_images_have_the_same_distribution() -> None:
    rng = np.random.default_rng(0)
    x, labels = torch.from_numpy(rng.normal(size=(12, 1, 40)) * 3).float(), torch.arange(12) % 3
    model = ClassGaussians(top_k=2, jitter=4.0, base_classes=3)
    model.fit_base(x, labels)
    assert model.thin
    model.add_novel(x[labels == 0].mean(0)[None])
    covariances = [np.cov(x[labels == c, 0].T.numpy()) for c in range(3)]
    means = x[:, 0].numpy()
    centres = [means[labels.numpy() == c].mean(0) for c in range(3)]
    near = sorted(range(3), key=lambda c: -float(centres[0] @ centres[c]) / np.linalg.norm(centres[c]))[:2]
    expected = [*covariances, sum(covariances[c] for c in near) / 2]
    drawn = model.sample(torch.arange(4), 20_000, torch.Generator().manual_seed(0)).view(4, 20_000, 40).numpy()
    for c, covariance in enumerate(expected):
        error = np.cov(drawn[c].T) - covariance - 4 * np.eye(40)
        assert np.linalg.norm(error) < 0.05 * np.linalg.norm(covariance)
        assert np.allclose(drawn[c].mean(0), centres[c % 3], atol=0.2)
    images = x.flatten(1)
    kept = torch.cat([value.reshape(-1, 40) for value in (model.means, model.factors.mT, model.covariances.mT)])
    assert torch.cdist(kept, images).min() > 0.1  # of no single image


def uneven_world() -> tuple[list[Session], list[tuple[View, torch.Tensor]]]:
    """The world of the other tests, with one layer cut and one spread out over more numbers, and made longer."""
    turn = torch.linalg.qr(torch.randn(40, 16, generator=torch.Generator().manual_seed(5)))[0].T

    def changed(view: View) -> View:
        return View(view.final, {2: view.layers[2][:, :10], 3: 7 * view.layers[3] @ turn})

    sessions, exams = make_world(spread=0.6)
    again = [Session(s.index, s.classes, None, s.labels, changed(s.view), s.head) for s in sessions]  # type: ignore[arg-type]
    return again, [(changed(view), labels) for view, labels in exams]


@pytest.mark.parametrize("joint", [True, False])
def test_yourself_learns_from_uneven_layers_and_comes_back_from_its_state(joint: bool) -> None:
    sessions, exams = uneven_world()
    method = YourSelf(layers=(2, 3), joint=joint, base_steps=60, novel_steps=30, pool=50, prototypes="head")
    method.start(seed=0, depth=4, device=CPU)
    method.fit_base(sessions[0])
    for session in sessions[1:-1]:
        method.fit_novel(session)
    again = YourSelf(layers=(2, 3), joint=joint, base_steps=60, novel_steps=30, pool=50, prototypes="head")
    again.start(seed=0, depth=4, device=CPU)
    again.load_state_dict(copy.deepcopy(method.state_dict()))
    right = total = 0
    for each in (method, again):
        each.fit_novel(sessions[-1])
    for view, labels in exams:
        scores = method.scores(view)
        assert torch.equal(scores, again.scores(view))
        assert method.rectified(view).shape == (2, len(view), 16)
        right, total = right + int((scores.argmax(1) == labels).sum()), total + len(labels)
    assert right / total > 0.8


def test_prototypes_of_the_final_features_say_nothing_of_layers_of_another_width() -> None:
    method = YourSelf(layers=(2, 3), own_relations=False)
    method.start(seed=0, depth=4, device=CPU)
    with pytest.raises(InputError, match="own_relations=false"):
        method.fit_base(uneven_world()[0][0])


@cache
def small_cnn() -> tuple[Checkpoint, FeatureCache]:
    torch.manual_seed(0)
    config = BackboneConfig(kind="timm", name="test_resnet", image_size=32)
    network = Checkpoint(
        Classifier(config, TrainConfig(), BASE).eval().requires_grad_(False), {"classes": BASE, "outputs": BASE}
    )
    return network, FeatureCache(None, network.backbone)


QUICK = {"base_steps": 5, "novel_steps": 5, "hidden": 8}
LAYER_METHODS = [
    ("yourself", QUICK),
    ("yourself", {**QUICK, "layers": (1, 5), "whitened_final": False, "centring": 0.5, "joint": False}),
    ("whitened", {"layers": (2, 3)}),
    ("prototypes", {"block": 3}),
    ("teen", {"rectify": QUICK}),
    ("fecam", {"rectify": {**QUICK, "layers": (4,)}}),
    ("lda", {}),
    ("ranpac", {"width": 32}),
]


@pytest.mark.parametrize(("name", "options"), LAYER_METHODS)
def test_layer_methods_run_on_a_small_cnn(name: str, options: dict[str, Any]) -> None:
    network, features = small_cnn()
    outcome = run_method(make(name, options), tiny_benchmark(), features, network=network)
    assert np.isfinite(outcome.matrix.to_lists()[-1]).all()


def test_raw_layers_of_any_width_against_plain_cosines() -> None:
    sessions, exams = uneven_world()
    method: Method = RawLayers(layers=(2, 3))
    method.start(seed=0, depth=4, device=CPU)
    method.fit_base(sessions[0])
    method.fit_novel(sessions[1])
    view, _ = exams[1]
    for label, part in (("block 2", view.layers[2]), ("block 3", view.layers[3]), ("final", view.final)):
        found = method.variants()[label](view).numpy()
        for c in range(BASE + 2):
            session = sessions[c >= BASE]
            own = {"block 2": session.view.layers[2], "block 3": session.view.layers[3], "final": session.view.final}
            shots = own[label].numpy()[session.labels.numpy() == c]
            mean = (shots / np.linalg.norm(shots, axis=1, keepdims=True)).mean(0)
            for row, x in zip(found[:3], part.numpy(), strict=False):
                assert row[c] == pytest.approx(x @ mean / np.linalg.norm(x) / np.linalg.norm(mean), abs=1e-5)

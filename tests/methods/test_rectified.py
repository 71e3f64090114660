"""`rectify`: class means become YourSelf; any other method stays what it is, and is asked about other features."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import make_world
from tiny_benchmark import CPU, DEPTH, prepared, tiny_benchmark
from torch import Tensor

from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.data import View
from fscil.experiments.preflight import obstacle
from fscil.methods import REGISTRY, Method, make
from fscil.methods.rectified import Rectified

FEW: dict[str, Any] = {"layers": [2, 3], "base_steps": 20, "novel_steps": 15}
CARRIERS = ("alice", "c-fscil", "cec", "clom", "fact", "fecam", "lda", "limit", "prototypes", "savc", "teen")
QUICK: dict[str, dict[str, Any]] = {
    "c-fscil": {"meta_steps": 10}, "cec": {"steps": 5, "turn": False}, "clom": {"steps": 10}, "limit": {"steps": 5},
    "fact": {"steps": 10},
}  # fmt: skip


def taught(method: Method) -> tuple[Method, list[tuple[View, Tensor]]]:
    """In a world of features, all sessions."""
    sessions, exams = make_world(spread=0.5)
    method.start(seed=0, depth=DEPTH, device=CPU)
    method.fit_base(sessions[0])
    for session in sessions[1:]:
        method.fit_novel(session)
    return method, exams


def carrier(name: str, **more: Any) -> Rectified:
    method = make(name, {**QUICK.get(name, {}), "rectify": {**FEW, **more}})
    assert isinstance(method, Rectified)
    return method


def test_every_method_that_can_carry_it_does_and_no_other() -> None:
    for name, kind in REGISTRY.items():
        if name in CARRIERS:
            assert make(name, {"rectify": True}).name == name
            continue
        said = re.escape(f"options.{name}.rectify: {kind.title} cannot be rectified, because ")
        with pytest.raises(InputError, match=rf"^{said}[^\n]+\.$"):
            make(name, {"rectify": True})


def test_class_means_rectified_are_yourself() -> None:
    """Its branches' logits averaged, as the authors do; nothing of the whitened share."""
    ours, exams = taught(carrier("prototypes"))
    options = {**FEW, "whitened": 0, "first_step": "dampened", "ensemble": "logits"}
    theirs, _ = taught(make("yourself", options))
    for view, _ in exams:
        assert torch.allclose(16 * ours.scores(view), theirs.scores(view), atol=1e-5)


@pytest.mark.parametrize("name", CARRIERS)
def test_the_method_itself_stays_what_it_is(name: str) -> None:
    ours, exams = taught(carrier(name))
    alone, _ = taught(make(name, QUICK.get(name, {})))
    plain = ours.variants()["not rectified"]
    for view, _ in exams:
        assert torch.equal(plain(view), alone.scores(view))
        assert not torch.equal(ours.scores(view), alone.scores(view))


@pytest.mark.parametrize("name", CARRIERS)
def test_branches_are_scored_by_the_method_and_averaged(name: str) -> None:
    ours, exams = taught(carrier(name))
    alone, _ = taught(make(name, QUICK.get(name, {})))
    assert isinstance(ours, Rectified)
    view, labels = exams[-1]
    branches = ours.rectified(view)
    assert len(branches) == 2
    wanted = sum(alone.scores(dataclasses.replace(view, final=x)) for x in branches) / 2
    assert torch.allclose(ours.scores(view), wanted.to(ours.scores(view)), atol=1e-5)
    assert float((ours.scores(view).argmax(1) == labels).float().mean()) > 0.6


@pytest.mark.parametrize("name", CARRIERS)
def test_modules_are_trained_against_the_methods_own_prototypes(name: str) -> None:
    ours, exams = taught(carrier(name))
    assert isinstance(ours, Rectified)
    vectors, view = ours.carried.class_vectors(), exams[-1][0]
    assert vectors.shape == (ours.scores(view).shape[1], view.final.shape[1])
    assert torch.allclose(ours.means_[0], F.normalize(vectors, dim=-1), atol=1e-6)
    layers = make("prototypes", {"rectify": FEW})  # those of the layers are means, whoever carries it
    assert torch.allclose(ours.means_[1:], taught(layers)[0].means_[1:], atol=1e-6)  # type: ignore[attr-defined]


def test_a_method_that_learns_nothing_but_rotates_its_prototypes_is_trained_to_them() -> None:
    """TEEN's rows lie nearer to the base classes than means do: the modules see the rows."""
    strong, _ = taught(make("teen", {"share": 0.9, "rectify": FEW}))
    weak, _ = taught(make("teen", {"share": 0.0, "rectify": FEW}))
    assert isinstance(strong, Rectified)
    assert isinstance(weak, Rectified)
    base = strong.base_classes_
    assert torch.equal(strong.means_[:, :base], weak.means_[:, :base])
    assert not torch.allclose(strong.means_[0], weak.means_[0], atol=0.1)


def test_it_keeps_name_and_options_and_says_what_it_is() -> None:
    method = make("teen", {"share": 0.4, "rectify": True})
    assert (method.name, method.title) == ("teen", "TEEN, rectified")
    assert method.options() == {**make("teen", {"share": 0.4}).options(), "rectify": True}
    assert method.needs == {"layers"}
    assert method.blocks(6) == (3, 4, 5)
    chosen = make("teen", {"rectify": {"layers": [2], "weight_all": 1}})
    assert chosen.options()["rectify"] == {"first_step": "dampened", "layers": (2,), "weight_all": 1.0}
    again = make("teen", chosen.options())
    assert again.options() == chosen.options()
    assert make("teen", {"rectify": False}).options() == make("teen").options()
    assert type(make("teen", {"rectify": False})) is REGISTRY["teen"]


def test_needs_and_transforms_are_those_of_both() -> None:
    savc = make("savc", {"rectify": True})
    assert savc.transforms(8, {}, base=True) == make("savc").transforms(8, {}, base=True) != ()
    assert make("cec", {"rectify": True}).needs == {"images", "backbone", "layers"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rectify": 1}, r"options\.teen\.rectify must be true, false or a group of YourSelf's options; got 1\."),
        ({"rectify": {"layer": 2}}, r"Unknown key 'options\.teen\.rectify\.layer'; did you mean 'layers'"),
        ({"rectify": {"lr": -1}}, r"options\.teen\.rectify\.lr must be"),
        ({"rectify": {"whitened": 0.3}}, r"options\.teen\.rectify\.whitened has no say here; leave it out\."),
        ({"rectify": True, "shares": 1}, r"Unknown key 'options\.teen\.shares'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make("teen", options)


def test_class_means_of_a_block_are_refused() -> None:
    with pytest.raises(InputError, match="compares features of block 3, and no final ones"):
        make("prototypes", {"block": 3, "rectify": True})


def test_a_network_without_layers_is_refused_before_anything_is_trained() -> None:
    config = configs.load("cifar100_teen", ["options.teen.rectify=true"])
    assert obstacle("teen", config) == "TEEN, rectified needs intermediate layers, which a resnet20 does not give."
    assert obstacle("teen", configs.load("glyphs_teen", ["options.teen.rectify=true"])) == ""
    deep = configs.load("glyphs_teen", ["options.teen.rectify={layers=[9]}"])
    with pytest.raises(InputError, match="Block 9 does not exist: the network has blocks 1 to 6"):
        obstacle("teen", deep)


def test_a_rectified_method_learns_images_through_the_protocol() -> None:
    method = make("savc", {"rectify": FEW})
    method.start(seed=0, depth=DEPTH, device=CPU)
    sessions = prepared(method, tiny_benchmark())
    assert sessions[0].view is not None
    assert set(sessions[0].view.layers) == {2, 3}
    assert sessions[0].view.turned

"""SAVC: prototypes of every class in every transform."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import make_world
from tiny_benchmark import CPU, DEPTH, exam_view, prepared, tiny_benchmark, tiny_features, tiny_network
from torch import Tensor

from fscil.backbones import Backbone
from fscil.backbones.extract import extract
from fscil.core.errors import InputError
from fscil.data.fantasy import FANTASIES
from fscil.data.session import View
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.methods import make
from fscil.methods.savc import SAVC


def learned(**options: object) -> SAVC:
    method = make("savc", options)
    assert isinstance(method, SAVC)
    method.start(seed=0, depth=DEPTH, device=CPU)
    for session in prepared(method, tiny_benchmark()):
        (method.fit_novel if session.index else method.fit_base)(session)
    return method


def test_scores_are_the_mean_over_transforms_of_cosines_to_that_transforms_means() -> None:
    method, benchmark, backbone = learned(), tiny_benchmark(), tiny_network().backbone
    view = exam_view(method, benchmark)
    images = benchmark.exam(0).images
    total = torch.zeros(len(images), 14)
    for turns in (0, 2):
        x = F.normalize(extract(backbone, images.rot90(turns, (1, 2))).final, dim=-1)
        for index in range(4):
            session = benchmark.session(index)
            assert session.images is not None
            shots = extract(backbone, session.images.rot90(turns, (1, 2))).final
            for c in session.classes:
                total[:, c] += x @ F.normalize(shots[session.labels == c].mean(0), dim=0) / 2
    assert torch.allclose(method.scores(view), total, atol=1e-5)


@pytest.mark.parametrize("fantasies", [1, 4, 12])
def test_one_row_per_class_and_transform(fantasies: int) -> None:
    assert learned(fantasies=fantasies).prototypes_.shape == (fantasies, 14, 16)


def test_with_one_transform_and_without_pixels_it_is_class_means_of_features_as_they_are() -> None:
    sessions, exams = make_world()
    method, means = SAVC(), []
    method.start(seed=0, depth=DEPTH, device=CPU)
    for session in sessions[:2]:
        (method.fit_novel if session.index else method.fit_base)(session)
        assert session.view is not None
        means += [F.normalize(session.view.final[session.labels == c].mean(0), dim=0) for c in session.classes]
    view = exams[0][0]
    expected = F.normalize(view.final, dim=-1) @ torch.stack(means).T
    assert torch.allclose(method.scores(view), expected, atol=1e-6)
    whole = learned(fantasies=1)
    view = exam_view(whole, tiny_benchmark())
    assert torch.allclose(whole.scores(view), whole.variants()["without transforms"](view))


def test_it_takes_as_many_transforms_as_base_training_had() -> None:
    method, extras = SAVC(), {"fantasy.weight": torch.zeros(3 * 8, 16)}
    assert method.transforms(8, {}, base=True) == FANTASIES[2][1:]
    assert method.transforms(8, extras, base=True) == FANTASIES[4][1:]
    network = dataclasses.replace(tiny_network(), extras=extras)
    run_method(method, tiny_benchmark(), tiny_features(), network=network)
    assert method.count_ == 4


def test_a_session_leaves_old_prototypes_alone() -> None:
    method, benchmark = SAVC(), tiny_benchmark()
    method.start(seed=0, depth=DEPTH, device=CPU)
    sessions, view = prepared(method, benchmark), exam_view(method, benchmark)
    method.fit_base(sessions[0])
    first = method.scores(view)
    method.fit_novel(sessions[1])
    assert torch.equal(method.scores(view)[:, :8], first)


def test_turned_images_are_run_once_for_all_draws_and_methods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs: list[int] = []

    def counted(backbone: Backbone, images: Tensor, blocks: Sequence[int] = ()) -> View:
        runs.append(len(images))
        return extract(backbone, images, blocks)

    monkeypatch.setattr("fscil.evaluation.features.extract", counted)
    for fantasies in (12, 4):
        cache = FeatureCache(tmp_path, tiny_network().backbone)
        run_method(SAVC(fantasies=fantasies), tiny_benchmark(), cache, network=tiny_network())  # type: ignore[arg-type]
        assert sum(runs) == 12 * (8 * 13 + 6 * 5 + 14 * 4)  # base images, shots, test images


def test_another_number_of_transforms_is_refused() -> None:
    with pytest.raises(InputError, match=r"options\.savc\.fantasies must be"):
        learned(fantasies=3)

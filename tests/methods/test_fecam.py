"""FeCAM: shrinkage and correlation by hand, distances against a slow twin, and what the card promises."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, make_world

from fscil.core.errors import InputError
from fscil.data.session import Session, View
from fscil.methods import make
from fscil.methods.fecam import FeCAM, correlations, shrunk


def positive(sessions: list[Session]) -> list[Session]:
    """The same sessions as a network with a last ReLU would give them."""
    out = []
    for session in sessions:
        assert session.view is not None
        out.append(dataclasses.replace(session, view=View(session.view.final.abs() + 0.1)))
    return out


def learned(sessions: list[Session], **options: Any) -> FeCAM:
    method = make("fecam", options)
    assert isinstance(method, FeCAM)
    method.start(seed=0, depth=0, device=torch.device("cpu"))
    for session in sessions:
        (method.fit_base if session.index == 0 else method.fit_novel)(session)
    return method


def test_shrinkage_by_hand() -> None:
    """Variances 4 and 2, covariance 1: their means are 3 and 1."""
    matrix = torch.tensor([[[4.0, 1.0], [1.0, 2.0]]])
    once = shrunk(matrix, 1.0, 1.0)
    assert once[0].tolist() == [[7, 2], [2, 5]]
    assert shrunk(once, 1.0, 1.0)[0].tolist() == [[13, 4], [4, 11]]  # twice by 1 is not once by 2:
    assert shrunk(matrix, 2.0, 2.0)[0].tolist() == [[10, 3], [3, 8]]
    half = correlations(torch.tensor([[[4.0, 1.0], [1.0, 1.0]]]))
    assert half[0].tolist() == [[1, 0.5], [0.5, 1]]


def test_correlations_have_a_unit_diagonal_and_an_inverse() -> None:
    shots = torch.randn(2, 10, dtype=torch.float64)  # two samples: rank one
    matrix = correlations(shrunk((shots - shots.mean(0)).T[None] @ (shots - shots.mean(0)), 0.1, 0.0))[0]
    assert torch.equal(matrix.diagonal(), torch.ones(10, dtype=torch.float64))
    assert torch.allclose(matrix, matrix.T)
    assert torch.linalg.eigvalsh(matrix)[0] > 0
    still = correlations(torch.zeros(1, 3, 3))
    assert torch.equal(still[0], torch.eye(3))


@pytest.mark.parametrize(("diagonal", "rest"), [(0.5, 0.0), (0.5, 0.5), (1.0, 1.0)])  # the last: as released
def test_scores_against_a_slow_twin(diagonal: float, rest: float) -> None:
    """The six steps of the released code in plain numpy, one image and one class at a time."""
    sessions, exams = make_world()
    sessions = positive(sessions)
    method = learned(sessions[:2], diagonal=diagonal, rest=rest, rounds=2)
    view = View(exams[1][0].final.abs()[:5])
    expected = np.zeros((5, BASE + 2))
    for session in sessions[:2]:
        assert session.view is not None
        for c in session.classes:
            x = session.view.final[session.labels == c].double().numpy()
            matrix = np.cov(x**0.5, rowvar=False)
            for _ in range(2):
                off = ~np.eye(16, dtype=bool)
                matrix = matrix + diagonal * matrix.diagonal().mean() * np.eye(16) + rest * matrix[off].mean() * off
            deviation = np.sqrt(matrix.diagonal())
            inverse = np.linalg.pinv(matrix / np.outer(deviation, deviation))
            centre = x.mean(0) ** 0.5
            centre /= np.linalg.norm(centre)
            for row, image in enumerate(view.final.double().numpy()):
                query = (image / np.linalg.norm(image)) ** 0.5
                gap = query / np.linalg.norm(query) - centre
                expected[row, c] = -gap @ inverse @ gap
    assert np.allclose(method.scores(view).numpy(), expected, rtol=1e-3, atol=1e-5)


def test_endless_shrinkage_and_no_transform_ranks_as_cosine_to_means() -> None:
    sessions, exams = make_world()
    view = exams[-1][0]
    method = learned(sessions, diagonal=1e9)
    baseline = make("prototypes")
    for session in sessions:
        (baseline.fit_base if session.index == 0 else baseline.fit_novel)(session)
    assert torch.equal(method.scores(view).argsort(1), baseline.scores(view).argsort(1))


def test_distances_are_never_negative_and_zero_at_the_mean() -> None:
    sessions, exams = make_world()
    method = learned(positive(sessions))
    assert (method.scores(View(exams[0][0].final.abs())) <= 0).all()
    first = method.means_[:1]
    assert method.scores(View(first))[0, 0].item() == pytest.approx(0, abs=1e-10)
    assert torch.allclose(method.scores(View(first)), method.scores(View(9.0 * first)), atol=1e-6)


@pytest.mark.parametrize("signed", [True, False])
def test_the_length_of_a_class_does_not_matter(signed: bool) -> None:
    sessions, exams = make_world()
    sessions = sessions if signed else positive(sessions)
    view = exams[0][0] if signed else View(exams[0][0].final.abs())
    assert sessions[1].view is not None
    longer = dataclasses.replace(sessions[1], view=View(4.0 * sessions[1].view.final))
    plain, scaled = learned(sessions[:2]), learned([sessions[0], longer])
    assert torch.allclose(plain.scores(view), scaled.scores(view), atol=1e-4)


def test_a_calibrated_class_that_resembles_one_base_class_gets_its_covariance() -> None:
    sessions, _ = make_world()
    assert sessions[1].view is not None
    lonely = dataclasses.replace(  # no shots' spread of its own, and looks like base class 0
        sessions[1], view=View(learned(sessions[:1]).means_[:1].repeat(len(sessions[1]), 1))
    )
    method = learned([sessions[0], lonely], calibrate=True, share=0.0, temperature=1e4)
    assert torch.allclose(method.whitening_[BASE], method.whitening_[0], atol=1e-3)
    assert torch.allclose(method.centres_[BASE], F.normalize(method.means_[0], dim=-1), atol=1e-5)


def test_one_shot_borrows_the_mean_spread_of_the_base_classes() -> None:
    sessions, exams = make_world(shot=1)
    method = learned(sessions[:2])
    assert torch.allclose(method.whitening_[BASE], method._whitening(method.covariances_.mean(0)[None])[0])
    assert torch.isfinite(method.scores(exams[0][0])).all()


def test_wrong_options_are_named() -> None:
    for options, words in (
        ({"power": 2.0}, "fecam.power"),
        ({"diagonal": 0.0}, "diagonal"),
        ({"diagonal": 1.0, "rest": 2.0}, "rest"),
        ({"rounds": 0}, "fecam.rounds"),
    ):
        with pytest.raises(InputError, match=words):
            learned([], **options)

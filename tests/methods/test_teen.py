"""TEEN: the numbers of a small case by hand, and what the paper's formula promises."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, make_world

from fscil.core.errors import InputError
from fscil.data.session import Session, View
from fscil.methods import make
from fscil.methods.teen import TEEN, calibrated, kinship


def learned(sessions: list[Session], **options: float) -> TEEN:
    method = make("teen", options)
    assert isinstance(method, TEEN)
    method.start(seed=0, depth=0, device=torch.device("cpu"))
    for session in sessions:
        (method.fit_base if session.index == 0 else method.fit_novel)(session)
    return method


def test_a_new_row_by_hand() -> None:
    """Two base classes on the axes, one new class half-way to the first: cosines 4/5 and 3/5."""
    base = torch.tensor([[2.0, 0.0], [0.0, 5.0]])
    new = torch.tensor([[8.0, 6.0]])
    weights = kinship(new, base, 5.0)  # softmax of 4 and 3
    first = math.e / (math.e + 1)
    assert weights[0].tolist() == pytest.approx([first, 1 - first])
    length = math.hypot(first, 1 - first)
    row = calibrated(new, base, weights, 0.25)[0].tolist()
    assert row == pytest.approx([0.75 * 0.8 + 0.25 * first / length, 0.75 * 0.6 + 0.25 * (1 - first) / length])


def test_without_calibration_it_is_class_means() -> None:
    sessions, exams = make_world()
    view = exams[-1][0]
    means = []
    for session in sessions:
        assert session.view is not None
        means += [session.view.final[session.labels == c].mean(0) for c in session.classes]
    expected = F.normalize(view.final, dim=-1) @ F.normalize(torch.stack(means), dim=-1).T
    assert torch.allclose(learned(sessions, share=0.0).scores(view), expected, atol=1e-6)
    calibrated_too = learned(sessions, share=0.4)
    assert torch.allclose(calibrated_too.variants()["not calibrated"](view), expected, atol=1e-6)
    assert not torch.allclose(calibrated_too.scores(view), expected, atol=1e-3)


def test_the_whole_share_leaves_a_mix_of_base_rows() -> None:
    method = learned(make_world()[0], share=1.0)
    base, new = method.rows_[:BASE], method.rows_[BASE:]
    weights = torch.linalg.lstsq(base.T, new.T).solution  # 8 base rows in 16 dimensions: the weights are unique
    assert torch.allclose(base.T @ weights, new.T, atol=1e-5)
    assert (weights > -1e-5).all()


def test_cold_takes_the_nearest_base_class_and_hot_all_alike() -> None:
    base, new = torch.randn(6, 4), torch.randn(3, 4)
    unit = F.normalize(base, dim=-1)
    nearest = unit[(F.normalize(new, dim=-1) @ unit.T).argmax(1)]
    assert torch.allclose(calibrated(new, base, kinship(new, base, 1e4), 1.0), nearest, atol=1e-4)
    middle = F.normalize(unit.mean(0), dim=-1).expand(3, -1)
    assert torch.allclose(calibrated(new, base, kinship(new, base, 0.0), 1.0), middle, atol=1e-6)


def test_old_rows_stay_and_the_order_of_sessions_does_not_matter() -> None:
    sessions, _ = make_world()
    method = learned(sessions[:1])
    kept = method.rows_.clone()
    for session in sessions[1:]:
        method.fit_novel(session)
        assert torch.equal(method.rows_[: len(kept)], kept)
        kept = method.rows_.clone()
    swapped = learned([sessions[0], sessions[2], sessions[1], sessions[3]])
    assert torch.allclose(swapped.rows_[BASE : BASE + 2], method.rows_[BASE + 2 : BASE + 4], atol=1e-6)


def test_the_length_of_the_shots_does_not_matter() -> None:
    sessions, exams = make_world()
    first = sessions[1]
    assert first.view is not None
    longer = Session(1, first.classes, None, first.labels, View(7.0 * first.view.final))
    view = exams[-1][0]
    short, long = (learned([sessions[0], session]).scores(view) for session in (first, longer))
    assert torch.allclose(short, long, atol=1e-6)


def test_wrong_options_are_named() -> None:
    for options, words in (({"share": 1.5}, "teen.share"), ({"temperature": -1.0}, "teen.temperature")):
        with pytest.raises(InputError, match=words):
            learned([], **options)

"""Lazy: the base classifier's answers, and the paper's table of the corner case."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, make_world

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.data.session import View
from fscil.methods import make
from fscil.metrics import summary
from fscil.paper.printed import corner_matrix, table


def learned(**options: object):  # type: ignore[no-untyped-def]
    method = make("lazy", options)
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    sessions, exams = make_world()
    method.fit_base(sessions[0])
    for session in sessions[1:]:
        method.fit_novel(session)
    return method, sessions, exams


def test_the_trained_head_answers_and_no_new_class_is_ever_predicted() -> None:
    method, sessions, exams = learned()
    assert sessions[0].head is not None
    for view, _ in exams:
        expected = (F.normalize(view.final, dim=1) @ F.normalize(sessions[0].head, dim=1).T).argmax(1)
        scores = method.scores(view)
        assert torch.equal(scores.argmax(1), expected)
        assert scores[:, BASE:].max() < scores[:, :BASE].min()


def test_class_means_answer_where_asked_or_where_there_is_no_head() -> None:
    method, _, exams = learned(classifier="means")
    view, labels = exams[0]
    assert (method.scores(view).argmax(1) == labels).float().mean() > 0.9
    with pytest.raises(InputError, match=r"options\.lazy\.classifier must be head or means"):
        learned(classifier="heads")


def test_even_the_worst_image_is_not_given_a_new_class() -> None:
    """A feature opposite to every base weight has cosines of -1, which must still beat a new class."""
    method, sessions, _ = learned()
    assert sessions[0].head is not None
    view = View(-sessions[0].head[:1])
    assert method.scores(view).argmax(1).item() < BASE


def test_its_matrix_is_the_papers_corner_case() -> None:
    """Constant on base classes, zero on new ones: then the paper's numbers follow."""
    lazy = corner_matrix(table("lazy"))
    rows = [[85.0, *[0.0] * i] for i in range(9)]
    assert lazy.to_lists() == rows
    found = summary(AccuracyMatrix.from_lists(rows, (60, *[5] * 8)))
    assert (round(found["aacc"], 2), round(found["gacc_grid"], 2)) == (65.49, 49.92)

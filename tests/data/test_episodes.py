"""Episodes: the right classes, rows of those classes, none twice."""

from __future__ import annotations

import pytest
import torch

from fscil.core.errors import InputError
from fscil.data.episodes import ClassRows, some_classes


def test_rows_belong_to_their_class_and_come_once() -> None:
    labels = torch.tensor([2, 0, 1, 0, 2, 2, 0, 1, 0])
    rows = ClassRows(labels, range(3))
    assert rows.sizes.tolist() == [4, 2, 3]
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        drawn = rows.draw(torch.tensor([2, 0]), 3, generator)
        assert labels[drawn].tolist() == [[2] * 3, [0] * 3]
        assert all(len(set(row)) == 3 for row in drawn.tolist())


def test_every_row_is_drawn_about_as_often() -> None:
    rows, generator = ClassRows(torch.tensor([0, 0, 0, 0, 1]), range(2)), torch.Generator().manual_seed(0)
    counts = torch.zeros(5)
    for _ in range(2000):
        counts[rows.draw(torch.tensor([0]), 2, generator)] += 1
    assert counts[4] == 0
    assert ((counts[:4] - 1000).abs() < 120).all()


def test_a_small_class_gives_its_rows_again() -> None:
    rows = ClassRows(torch.tensor([0, 1, 1, 1]), range(2))
    drawn = rows.draw(torch.tensor([0, 1]), 5, torch.Generator().manual_seed(0))
    assert drawn[0].tolist() == [0] * 5
    assert set(drawn[1].tolist()) == {1, 2, 3}


def test_classes_are_different_and_all_where_there_are_fewer() -> None:
    generator = torch.Generator().manual_seed(0)
    assert sorted(some_classes(5, 9, generator).tolist()) == [0, 1, 2, 3, 4]
    assert len(set(some_classes(50, 15, generator).tolist())) == 15


def test_a_class_without_images_is_named() -> None:
    with pytest.raises(InputError, match="none of 1"):
        ClassRows(torch.tensor([0, 2]), range(3))

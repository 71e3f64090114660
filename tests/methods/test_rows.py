"""Rows that grow in place are what `torch.cat` makes of them, whoever else goes on from them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fscil.methods import make
from fscil.methods.base import ClassMeans
from fscil.methods.rows import ROOM, appended


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dim", [0, 1, -2])
def test_as_torch_cat(dim: int) -> None:
    rows = wanted = drawn(3, 2, 4, seed=0)
    for seed in range(1, 20):
        shape = list(rows.shape)
        shape[dim] = seed % 4
        new = drawn(*shape, seed=seed)
        before = rows.clone()
        longer, wanted = appended(rows, new, dim), torch.cat([wanted, new], dim)
        assert torch.equal(longer, wanted)
        assert torch.equal(rows, before)
        rows = longer


def go_on(rows: Tensor, seed: int) -> Tensor:
    return appended(rows, drawn(2, 4, seed=seed))


@pytest.mark.parametrize(
    "other",
    [
        lambda rows: rows,
        copy.deepcopy,
        lambda rows: rows[:-1],
        lambda rows: rows[1:],
        lambda rows: rows.flip(0),
        lambda rows: rows.T[:4].T,
    ],
)
def test_two_that_go_on_from_the_same_rows_do_not_meet(other: Callable[[Tensor], Tensor]) -> None:
    rows = go_on(go_on(drawn(10, 4, seed=0), 1), 2)  # with room behind them
    second = other(rows)
    as_given = second.clone()
    one, two = go_on(rows, 3), go_on(second, 4)
    assert torch.equal(one, torch.cat([rows, drawn(2, 4, seed=3)]))
    assert torch.equal(two, torch.cat([as_given, drawn(2, 4, seed=4)]))
    assert torch.equal(second, as_given)


def test_types_are_those_of_torch_cat() -> None:
    rows = go_on(drawn(10, 4, seed=0), 1)
    assert appended(rows, drawn(2, 4, seed=2).double()).dtype == torch.float64


def test_rows_move_now_and_then() -> None:
    rows, places = drawn(4, 8, seed=0), set()
    for seed in range(500):
        rows = appended(rows, drawn(2, 8, seed=seed))
        places.add(rows.data_ptr())
    assert len(places) < 16  # 1.5 ** 13.6 is 250, how much longer they are now
    assert rows._base is not None
    assert len(rows._base) < ROOM * len(rows) + 1


def test_a_state_that_two_methods_go_on_from() -> None:
    first, second = make("prototypes"), make("prototypes")
    assert isinstance(first, ClassMeans)
    assert isinstance(second, ClassMeans)
    first.prototypes_ = go_on(drawn(6, 4, seed=0), 1)
    second.load_state_dict(first.state_dict())
    first.prototypes_, second.prototypes_ = go_on(first.prototypes_, 2), go_on(second.prototypes_, 3)
    assert torch.equal(first.prototypes_[-2:], drawn(2, 4, seed=2))
    assert torch.equal(second.prototypes_[-2:], drawn(2, 4, seed=3))

"""Sessions and views: holding out, cutting, moving."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from data_samples import numbered_dataset, numbers

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Session, View


@pytest.fixture
def session() -> Session:
    session = Benchmark(numbered_dataset(classes=8, train=11), DataConfig(base=6, way=2)).session(0)
    row = torch.arange(len(session)).float()[:, None]
    return dataclasses.replace(session, view=View(row, {3: row * 2}, session.images))


@pytest.mark.parametrize(("fraction", "held"), [(0.2, 2), (0.5, 6), (0.01, 1)])
def test_hold_out_is_disjoint_complete_and_per_class(session: Session, fraction: float, held: int) -> None:
    train, validation = session.hold_out(fraction, seed=0)
    assert torch.bincount(validation.labels).tolist() == [held] * 6
    assert torch.bincount(train.labels).tolist() == [11 - held] * 6
    rows = [numbers(part.images).tolist() for part in (train, validation)]
    assert not set(rows[0]) & set(rows[1])
    assert sorted(rows[0] + rows[1]) == sorted(numbers(session.images).tolist())


def test_hold_out_keeps_what_belongs_together(session: Session) -> None:
    for part in session.hold_out(0.3, seed=1):
        assert part.view is not None
        assert part.view.images is not None
        assert part.images is not None
        assert (part.index, part.classes) == (session.index, session.classes)
        assert torch.equal(part.images, part.view.images)
        rows = part.view.final[:, 0].long()
        assert torch.equal(part.labels, session.labels[rows])
        assert torch.equal(part.view.layers[3], part.view.final * 2)


def test_hold_out_follows_its_seed(session: Session) -> None:
    one, same, other = (session.hold_out(0.3, seed)[1].images for seed in (0, 0, 1))
    assert one is not None
    assert same is not None
    assert other is not None
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_hold_out_without_images(session: Session) -> None:
    train, validation = dataclasses.replace(session, images=None).hold_out(0.3, 0)
    assert train.images is validation.images is None
    assert len(train) + len(validation) == len(session)


def test_a_view_is_cut_and_moved_as_one(session: Session) -> None:
    view = session.view
    assert view is not None
    for part in (view[2:5], view[torch.tensor([2, 3, 4])], view[2:5].to("cpu")):
        assert len(part) == 3
        assert part.images is not None
        assert part.images.shape[0] == part.layers[3].shape[0] == 3
        assert part.final[:, 0].tolist() == [2, 3, 4]

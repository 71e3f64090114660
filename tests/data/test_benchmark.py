"""A benchmark: which images a session and an exam hold, for every way of cutting a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from data_samples import numbered_dataset, numbers, refusal

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Dataset

DATASET = numbered_dataset(classes=20, train=12, test=4)


def cut(shots_seed: int = 0, dataset: Dataset = DATASET, **changes: int) -> Benchmark:
    settings: dict[str, Any] = {"base": 8, "way": 3, "shot": 5} | changes
    return Benchmark(dataset, DataConfig(**settings), shots_seed)


def true_class(rows: np.ndarray) -> np.ndarray:
    """The data set's own label of images, by the numbers in their pixels."""
    return DATASET.train.labels[rows]


def shots_of(benchmark: Benchmark) -> dict[int, list[int]]:
    """Class of the data set -> rows drawn for it, over all novel sessions."""
    drawn: dict[int, list[int]] = {}
    for index in range(1, len(benchmark.classes)):
        for row in numbers(benchmark.session(index).images):
            drawn.setdefault(int(true_class(row)), []).append(int(row))
    return drawn


def test_the_cifar_protocol() -> None:
    benchmark = cut(dataset=numbered_dataset(classes=100, train=6, test=2), base=60, way=5)
    assert benchmark.classes == (60, *[5] * 8)
    assert len(benchmark.session(0)) == 360
    assert [len(benchmark.session(i)) for i in range(1, 9)] == [25] * 8
    assert [len(benchmark.exam(i).labels) for i in range(9)] == [120, *[10] * 8]
    assert len(benchmark.class_names) == 100


@pytest.mark.parametrize("order_seed", [-1, 0, 7])
@pytest.mark.parametrize("way", [1, 3, 5])
def test_sessions_partition_the_classes(order_seed: int, way: int) -> None:
    benchmark = cut(order_seed=order_seed, way=way)
    seen: list[int] = []
    for index, count in enumerate(benchmark.classes):
        session = benchmark.session(index)
        assert session.index == index
        assert session.classes == range(len(seen), len(seen) + count)
        assert sorted(set(session.labels.tolist())) == list(session.classes)
        # A label counts through the class order: `order` leads back to the data set's label.
        assert np.array_equal(benchmark.order[session.labels], true_class(numbers(session.images)))
        expected = 12 if index == 0 else 5
        assert torch.bincount(session.labels)[list(session.classes)].tolist() == [expected] * count
        seen += [int(c) for c in np.unique(true_class(numbers(session.images)))]
    assert len(seen) == len(set(seen)) == sum(benchmark.classes)


@pytest.mark.parametrize("order_seed", [-1, 5])
def test_exams_hold_every_test_image_of_their_classes(order_seed: int) -> None:
    benchmark = cut(order_seed=order_seed)
    seen: list[int] = []
    for index in range(len(benchmark.classes)):
        exam = benchmark.exam(index)
        rows = numbers(exam.images) - 100_000
        assert sorted(set(exam.labels.tolist())) == list(benchmark.class_range(index))
        assert np.array_equal(benchmark.order[exam.labels], DATASET.test.labels[rows])
        seen += rows.tolist()
    assert sorted(seen) == list(range(len(DATASET.test)))


def test_natural_and_shuffled_order() -> None:
    assert cut().order.tolist() == list(range(20))
    assert cut().class_names == DATASET.class_names
    shuffled = cut(order_seed=3)
    assert sorted(shuffled.order) == list(range(20))
    assert shuffled.order.tolist() == cut(order_seed=3).order.tolist()
    assert shuffled.order.tolist() != cut(order_seed=4).order.tolist()
    assert shuffled.class_names == tuple(f"class{c}" for c in shuffled.order)


def test_shots_follow_their_seed() -> None:
    assert shots_of(cut(0)) == shots_of(cut(0))
    one, other = shots_of(cut(0)), shots_of(cut(1))
    assert sum(one[c] != other[c] for c in one) > len(one) // 2


def test_shots_of_a_class_do_not_depend_on_order_or_way() -> None:
    reference = shots_of(cut(2))
    for other in (cut(2, way=1), cut(2, way=4), cut(2, base=5), cut(2, order_seed=9)):
        found = shots_of(other)
        shared = reference.keys() & found.keys()
        assert len(shared) >= 4
        assert all(found[c] == reference[c] for c in shared)


def test_another_draw_changes_the_shots_alone() -> None:
    benchmark = cut(0, order_seed=6, sessions=2)
    drawn = benchmark.draw(1)
    assert drawn.shots_seed == 1
    assert drawn.order.tolist() == benchmark.order.tolist()
    assert drawn.classes == benchmark.classes == (8, 3, 3)
    assert torch.equal(drawn.session(0).images, benchmark.session(0).images)  # type: ignore[arg-type]
    assert shots_of(drawn) != shots_of(benchmark)
    assert shots_of(drawn) == shots_of(cut(1, order_seed=6, sessions=2))


def test_shots_are_spread_over_a_class() -> None:
    """Over many draws every image of a class is drawn about equally often: 12 images, 5 shots."""
    counts: np.ndarray = np.zeros(len(DATASET.train))
    for seed in range(200):
        for rows in shots_of(cut(seed, base=19, way=1)).values():
            counts[rows] += 1
    times = counts[DATASET.train.labels == 19]
    assert len(times) == 12
    assert np.abs(times - 200 * 5 / 12).max() < 4.5 * np.sqrt(200 * 5 / 12 * 7 / 12)


def test_left_over_classes_are_left_out() -> None:
    benchmark = cut(base=8, way=5)  # 12 novel classes: two sessions of 5, two classes left
    assert benchmark.classes == (8, 5, 5)
    assert len(benchmark.class_names) == 18


def test_the_fingerprint_names_the_base_session() -> None:
    assert cut(0).fingerprint() == cut(1).fingerprint() == cut(0, way=2).fingerprint()
    assert len({cut().fingerprint(), cut(base=9).fingerprint(), cut(order_seed=0).fingerprint()}) == 3


@pytest.mark.parametrize("index", [-1, 5])
def test_sessions_that_do_not_exist(index: int) -> None:
    for ask in (cut().session, cut().exam, cut().class_range):
        with pytest.raises(IndexError, match=f"Session {index} does not exist; there are 5"):
            ask(index)


def test_settings_that_do_not_fit() -> None:
    refusal(lambda: cut(base=1), "data.base must be a whole number of at least 2", "got 1")
    refusal(lambda: cut(way=0), "data.way must be a whole number of at least 1")
    refusal(lambda: cut(shot=0), "data.shot must be")
    refusal(lambda: cut(sessions=-1), "data.sessions must be")
    refusal(lambda: cut(base=18), "numbered has 20 classes", "18 base classes", "one session of 3")
    refusal(lambda: cut(sessions=5), "20 classes", "5 sessions of 3", "data.sessions")
    refusal(lambda: cut(shot=13), "Class 'class8'", "12 training images", "13 shots", "data.shot")
    refusal(lambda: cut(-1), "seed of the shots is -1")

"""Batches: the same for the same seed and step, whoever asks and in which order."""

from __future__ import annotations

import pytest
import torch
from data_samples import numbered_dataset, numbers, refusal

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Session
from fscil.data.batches import Batches

CPU = torch.device("cpu")
SESSION = Benchmark(numbered_dataset(classes=8, train=11), DataConfig(base=6, way=2)).session(0)  # 66 images


def rows(batches: Batches, step: int) -> list[int]:
    return numbers(batches.images[batches.rows(step)]).tolist()


def test_an_epoch_holds_no_image_twice() -> None:
    batches = Batches(SESSION, 16, seed=0, device=CPU)
    assert (batches.batch_size, batches.steps_per_epoch) == (16, 4)
    epoch = [row for step in range(4) for row in rows(batches, step)]
    assert len(epoch) == len(set(epoch)) == 64
    following = [row for step in range(4, 8) for row in rows(batches, step)]
    assert len(set(following)) == 64
    assert following != epoch


def test_labels_belong_to_their_images() -> None:
    batches = Batches(SESSION, 16, seed=3, device=CPU)
    images, labels = batches.images[batches.rows(5)], batches.labels[batches.rows(5)]
    known = dict(zip(numbers(SESSION.images).tolist(), SESSION.labels.tolist(), strict=True))
    assert [known[row] for row in numbers(images).tolist()] == labels.tolist()


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    forward, backward = Batches(SESSION, 16, 1, CPU), Batches(SESSION, 16, 1, CPU)
    found = {step: rows(forward, step) for step in range(12)}
    assert {step: rows(backward, step) for step in reversed(range(12))} == found
    assert rows(Batches(SESSION, 16, 2, CPU), 0) != found[0]


@pytest.mark.parametrize("world", [2, 4])
def test_slices_make_up_the_batch(world: int) -> None:
    whole = Batches(SESSION, 16, 1, CPU)
    parts = [Batches(SESSION, 16, 1, CPU, rank, world) for rank in range(world)]
    for step in (0, 3, 9):
        assert torch.equal(torch.cat([part.rows(step) for part in parts]), whole.rows(step))


def test_small_sessions() -> None:
    assert Batches(SESSION, 1000, 0, CPU).batch_size == 66
    assert Batches(SESSION, 1000, 0, CPU, world=2).batch_size == 64  # pairs on every process
    refusal(lambda: Batches(SESSION, 960, 0, CPU, world=40), "66 images", "40 devices")
    refusal(lambda: Batches(SESSION, 15, 0, CPU), "batch_size 15", "multiple of 2")
    refusal(lambda: Batches(SESSION, 18, 0, CPU, world=2), "batch_size 18", "multiple of 4")
    with pytest.raises(ValueError, match="without images"):
        Batches(Session(0, SESSION.classes, None, SESSION.labels), 16, 0, CPU)

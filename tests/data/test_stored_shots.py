"""Stored draws of shots: the same sessions on every copy of the data, whatever the order of its files."""

from __future__ import annotations

import hashlib
import json
from importlib import resources

import numpy as np
import pytest
import torch

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.data import Benchmark, Dataset, ImageSet, stored_shots

CONFIG = DataConfig(base=3, way=2, shot=2, shots="stored")
NAMES = tuple("abcdefg")


def dataset(order_seed: int, per_class: int = 6) -> Dataset:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(NAMES) * per_class, 4, 4, 3), dtype=np.uint8)
    labels = np.repeat(np.arange(len(NAMES)), per_class)
    order = np.random.default_rng(order_seed).permutation(len(labels))
    return Dataset("copy", ImageSet(images[order], labels[order]), ImageSet(images, labels), NAMES)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, list[str]]]:
    data = dataset(0)
    by_class = {NAMES[c]: data.train.images[data.train.labels == c] for c in range(3, 7)}
    draws = stored_shots.disjoint_draws(by_class, shot=2, count=3)
    monkeypatch.setattr(stored_shots, "load", lambda name: draws)
    return draws


def test_copies_in_another_order_give_the_same_sessions(stored: object) -> None:
    one, other = (Benchmark(dataset(seed), CONFIG) for seed in (1, 2))
    for draw in range(3):
        for index in range(3):
            a, b = one.draw(draw).session(index), other.draw(draw).session(index)
            assert a.images is not None
            assert b.images is not None
            assert torch.equal(a.images, b.images)
            assert torch.equal(a.labels, b.labels)
    assert one.fingerprint() == other.fingerprint()


def test_draws_share_no_image_and_hold_the_wanted_number(stored: list[dict[str, list[str]]]) -> None:
    for name in "defg":
        drawn = [shot for draw in stored for shot in draw[name]]
        assert len(drawn) == len(set(drawn)) == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shot": 3}, "do not have 3 images"),
        ({"shots": "none"}, "must be empty, stored or published"),
        ({"order_seed": 5}, "do not have 2 images"),
    ],
)
def test_settings_that_do_not_fit_are_refused(stored: object, change: dict[str, object], words: str) -> None:
    values = {"base": 3, "way": 2, "shot": 2, "shots": "stored", **change}
    with pytest.raises(InputError, match=words):
        Benchmark(dataset(0), DataConfig(**values))  # type: ignore[arg-type]


def test_too_many_draws_and_changed_images_are_refused(stored: object) -> None:
    with pytest.raises(InputError, match="3 stored draws"):
        Benchmark(dataset(0), CONFIG).draw(3)
    spoiled = dataset(0)
    spoiled.train.images[:] ^= 1
    with pytest.raises(InputError, match="whole and unchanged"):
        Benchmark(spoiled, CONFIG).session(1)


def test_a_data_set_without_stored_shots_says_so() -> None:
    with pytest.raises(InputError, match="no stored shots for copy"):
        Benchmark(dataset(0), CONFIG)


def test_the_stored_file_of_cifar100_covers_the_protocol() -> None:
    text = (resources.files("fscil.data") / "shots" / "cifar100.json").read_text(encoding="utf-8")
    draws = json.loads(text)["draws"]
    assert len(draws) == 10
    assert all(len(draw) == 40 and {len(shots) for shots in draw.values()} == {5} for draw in draws)
    every = [shot for draw in draws for shots in draw.values() for shot in shots]
    assert len(every) == len(set(every)) == 2000
    assert hashlib.sha256(text.encode()).hexdigest()[:8] == "996bb85c"

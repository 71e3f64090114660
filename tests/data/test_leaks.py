"""From a session there is no way to test images, to other sessions or to future classes.

The test walks everything that Python can reach from a session and searches the bytes it finds for foreign images.
"""

from __future__ import annotations

import dataclasses
import gc
import pickle
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from data_samples import numbered_dataset, numbers

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Session, View

DATASET = numbered_dataset(classes=20, train=12, test=4)
BENCHMARK = Benchmark(DATASET, DataConfig(base=8, way=3, shot=5))


def reachable(root: Any) -> Iterator[Any]:
    """Every object that can be reached from `root` through what it holds; not through the code it is made of."""
    seen, waiting = set(), [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, (type, types.ModuleType, types.CodeType)):
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, types.FunctionType):  # its globals are the program, its closure is data
            waiting += [thing.__closure__, thing.__defaults__, thing.__kwdefaults__]
            continue
        waiting += gc.get_referents(thing)
        waiting += list(getattr(thing, "__dict__", {}).values())
        if isinstance(thing, np.ndarray):
            waiting.append(thing.base)


def held_bytes(root: Any) -> bytes:
    """All array, tensor and byte content within reach: whole storages, not only the part a view shows."""
    found = []
    for thing in reachable(root):
        if isinstance(thing, torch.Tensor):
            found.append(bytes(thing.untyped_storage()))
        elif isinstance(thing, np.ndarray):
            found.append(thing.tobytes())
        elif isinstance(thing, (bytes, bytearray, memoryview)):
            found.append(bytes(thing))
    return b"|".join(found)


def foreign_images(index: int) -> list[bytes]:
    """Every image that session `index` must not hold: all test images, and all training images but its own."""
    own = set(numbers(BENCHMARK.session(index).images).tolist())
    train = [image.tobytes() for row, image in enumerate(DATASET.train.images) if row not in own]
    return train + [image.tobytes() for image in DATASET.test.images]


def with_view(session: Session) -> Session:
    assert session.images is not None
    features = session.images.flatten(1)[:, :5].float()
    return dataclasses.replace(session, view=View(features, {2: features + 1}, session.images.clone()))


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("change", [lambda s: s, with_view, lambda s: with_view(s).hold_out(0.2, 0)[0]])
def test_only_its_own_images_can_be_reached(index: int, change: Callable[[Session], Session]) -> None:
    session = change(BENCHMARK.session(index))
    held, pickled = held_bytes(session), pickle.dumps(session)
    for image in foreign_images(index):
        assert image not in held
        assert image not in pickled
    assert session.images is not None
    for own in session.images.numpy():  # the search does find what is there
        assert own.tobytes() in held


@pytest.mark.parametrize("index", range(5))
def test_a_session_holds_plain_values_only(index: int) -> None:
    kinds = {type(thing) for thing in reachable(BENCHMARK.session(index))}
    assert kinds <= {Session, torch.Tensor, dict, range, int, str, type(None)}


def test_storages_are_copies() -> None:
    sessions = [BENCHMARK.session(index) for index in range(5)] + [BENCHMARK.session(2)]
    tensors = [tensor for s in sessions for tensor in (s.images, s.labels) if tensor is not None]
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)
    for tensor in tensors:
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        for part in (DATASET.train, DATASET.test):
            assert not np.shares_memory(tensor.numpy(), part.images)
            assert not np.shares_memory(tensor.numpy(), part.labels)


def test_writing_to_a_session_or_exam_changes_nothing_else() -> None:
    before = DATASET.train.images.copy(), DATASET.test.images.copy()
    session, exam = BENCHMARK.session(1), BENCHMARK.exam(1)
    assert session.images is not None
    session.images.zero_()
    session.labels.zero_()
    exam.images.zero_()
    assert np.array_equal(DATASET.train.images, before[0])
    assert np.array_equal(DATASET.test.images, before[1])
    again = BENCHMARK.session(1)
    assert again.images is not None
    assert again.images.any()
    assert sorted(set(again.labels.tolist())) == [8, 9, 10]


class Leaky:
    """Ways in which a session could hold more than it shows."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def ask(self) -> Any:
        return self.held


@pytest.mark.parametrize(
    "leak",
    [
        Leaky,
        lambda dataset: Leaky(dataset).ask,
        lambda dataset: lambda: dataset,
        lambda dataset: (row for row in dataset.test.images),
        lambda dataset: {"deep": [{"down": (dataset,)}]},
        lambda dataset: torch.from_numpy(dataset.test.images.copy())[:1],  # a view of a larger storage
        lambda dataset: dataset.test.images[:0],
        lambda dataset: dataset.test.images.tobytes(),
    ],
)
def test_the_walk_would_find_a_leak(leak: Callable[[Any], Any]) -> None:
    session = BENCHMARK.session(1)
    object.__setattr__(session, "extra", leak(DATASET))
    assert DATASET.test.images[-1].tobytes() in held_bytes(session)

"""What a method sees of test images does not stay with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from fscil.data.session import Session, View
from fscil.evaluation.asking import asked
from fscil.evaluation.protocol import run_method
from fscil.methods import Method
from tests.methods.tiny_benchmark import tiny_benchmark, tiny_features


@dataclass
class Rememberer(Method):
    """Whoever was not there when it was last asked must be of the newest classes."""

    name: ClassVar[str] = "rememberer"
    title: ClassVar[str] = "Rememberer"
    paper: ClassVar[str] = "none"

    shared: ClassVar[dict[int, set[float]]] = {}  # one for all instances

    way: str = "attribute"

    def fit_base(self, session: Session) -> None:
        self.classes_, self.session_ = session.classes, 0
        self.tensor_, self.module_ = torch.zeros(100_000), nn.BatchNorm1d(1)
        self.known_: dict[int, set[float]] = {}  # by the session after which it was asked
        self.shared.clear()

    def fit_novel(self, session: Session) -> None:
        self.classes_, self.session_ = session.classes, session.index

    def scores(self, view: View) -> Tensor:
        marks = view.final[:, 0].tolist()
        known = self.shared if self.way == "class" else self.known_
        before = known.get(self.session_ - 1, set())
        if self.way == "attribute":
            self.known_ = {**self.known_, self.session_: {*self.known_.get(self.session_, ()), *marks}}
        elif self.way in ("container", "class"):
            known.setdefault(self.session_, set()).update(marks)
        elif self.way == "tensor":
            self.tensor_[: len(marks)] = torch.tensor(marks)
        elif self.way == "data":
            self.tensor_.data[: len(marks)] = torch.tensor(marks)
        elif self.way == "array":
            self.tensor_.numpy()[: len(marks)] = marks
        elif self.way == "storage":
            torch.empty(0).set_(self.tensor_.untyped_storage())[: len(marks)] = torch.tensor(marks)
        elif self.way == "buffer":
            self.module_.running_mean += marks[0]
        new = torch.tensor([bool(before) and mark not in before for mark in marks])
        scores = torch.zeros(len(view), self.classes_.stop)
        scores[new, self.classes_.start] = 1
        return scores

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"part": self.scores}


def accuracy_on_newest(way: str, monkeypatch: pytest.MonkeyPatch, guarded: bool) -> float:
    """Mean over sessions, in percent, on the classes that are new there; it always names the first of them."""
    if not guarded:
        monkeypatch.setattr("copy.deepcopy", lambda method: method)
    benchmark = tiny_benchmark()
    matrix = run_method(Rememberer(way), benchmark, tiny_features(benchmark.base)).matrix
    return sum(matrix.to_lists()[index][index] for index in range(1, len(matrix.classes))) / (len(matrix.classes) - 1)


@pytest.mark.parametrize("way", ["attribute", "container", "class"])
def test_who_remembers_test_images_knows_none_of_them_when_asked_again(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert accuracy_on_newest(way, monkeypatch, guarded=True) == 0
    assert accuracy_on_newest(way, monkeypatch, guarded=False) > 30  # so the test would see it


@pytest.mark.parametrize("way", ["tensor", "buffer", "data", "array", "storage"])
def test_who_writes_into_what_it_learned_is_found_out(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="Rememberer changed what it had learned"):
        accuracy_on_newest(way, monkeypatch, guarded=True)


def test_large_tensors_are_shared_and_variants_are_those_of_the_copy() -> None:
    method = Rememberer()
    method.fit_base(Session(0, range(3), None, torch.zeros(1, dtype=torch.long)))
    with asked(method) as scores:
        copied = scores.__self__
        assert copied is not method
        assert copied.tensor_.data_ptr() == method.tensor_.data_ptr()
        assert copied.module_.weight.data_ptr() != method.module_.weight.data_ptr()
    with asked(method, "part") as part:
        assert part.__self__ is not method
        assert part.__self__ is not copied

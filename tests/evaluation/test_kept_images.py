"""Images of earlier sessions: named by the method, kept by the protocol, within the budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from tiny_benchmark import (
    BASE,
    CPU,
    SESSIONS,
    SHOT,
    WAY,
    kept_for,
    prepared,
    tiny_benchmark,
    tiny_features,
    tiny_network,
)
from torch import Tensor

from fscil.core import config as configs
from fscil.data import Session
from fscil.data.session import Budget
from fscil.evaluation.fits import BaseFits, DrawState
from fscil.evaluation.protocol import Outcome, run_method
from fscil.evaluation.writer import make_result
from fscil.methods import Finetune
from fscil.results.result import parse_result


@dataclass
class Collector(Finetune):
    """Keeps as many images of each class as there is room for, and looks at what it gets."""

    name: ClassVar[str] = "collector"

    total: int = 0
    per_class: int = 0
    steps: int = 0

    def memory(self) -> Budget:
        return Budget(self.per_class or None, self.total or None)

    def _most(self, session: Session) -> int:
        return self.per_class or (self.total // session.classes.stop if self.total else 10**6)

    def keep(self, session: Session) -> Tensor:
        return torch.cat(
            [torch.nonzero(session.labels == c).flatten().flip(0)[: self._most(session)] for c in session.classes]
        )

    def retain(self, session: Session) -> Tensor:
        assert session.memory is not None
        seen = range(session.classes.start)
        return torch.cat([torch.empty(0, dtype=torch.long), *[
            torch.nonzero(session.memory.labels == c).flatten()[: self._most(session)] for c in seen
        ]])  # fmt: skip

    def fit_base(self, session: Session) -> None:
        self.seen_: list[str] = []
        super().fit_base(session)
        self._look(session)

    def fit_novel(self, session: Session) -> None:
        super().fit_novel(session)
        self._look(session)

    def _look(self, session: Session) -> None:
        assert session.memory is not None
        self.seen_.append(" ".join(map(str, session.memory.labels.tolist())))
        session.memory.images.zero_()


def ran(method: Collector, **more: object) -> Outcome:
    return run_method(method, tiny_benchmark(), tiny_features(), network=tiny_network(), **more)  # type: ignore[arg-type]


def test_of_each_class() -> None:
    outcome = ran(method := Collector(per_class=2))
    assert outcome.kept_images == 2 * (BASE + WAY * SESSIONS)
    wanted = [[c for c in range(seen) for _ in range(2)] for seen in (0, BASE, BASE + WAY, BASE + 2 * WAY)]
    assert method.seen_ == [" ".join(map(str, labels)) for labels in wanted]


def test_the_count_stands_in_the_result() -> None:
    method = Collector(per_class=2)
    network = tiny_network()
    told = {"seconds": 0.0, "data": "", "peak_memory_mb": 0.0, **network.info}
    document = make_result(
        configs.load("digits"),
        method,
        ran(method),
        dataset="tiny",
        shots_seed=0,
        device=CPU,
        network=replace(network, info=told),
        weights="",
        data="",
    )
    assert parse_result(document).cost["kept_images"] == 2 * (BASE + WAY * SESSIONS)


def test_in_total_the_lists_shrink() -> None:
    outcome = ran(method := Collector(total=26))
    assert [len(seen.split()) for seen in method.seen_] == [0, 24, 20, 24]  # 3, 2, 2 of 8, 10, 12 classes
    assert outcome.kept_images == 24


def test_the_images_are_those_that_were_named_and_copies() -> None:
    method, benchmark = Collector(per_class=3), tiny_benchmark()
    method.start(seed=0, depth=4, device=CPU)
    kept = kept_for(method)
    for session in prepared(method, benchmark):
        kept.learn(session)  # which blanks what it was given
        memory = kept._memory(session)
        for (index, row), image, label in zip(kept.places.tolist(), memory.images, memory.labels, strict=True):
            origin = benchmark.session(index)
            assert origin.images is not None
            assert torch.equal(image, origin.images[row])
            assert label == origin.labels[row]
    last = [row for index, row in kept.places.tolist() if index == SESSIONS]
    assert last == [4, 3, 2, 9, 8, 7]  # in the order in which they were named


def test_images_of_several_sessions_may_stand_in_any_order() -> None:
    kept, benchmark = kept_for(Collector(per_class=1)), tiny_benchmark()
    kept.put(torch.tensor([[2, 1], [0, 5], [1, 7], [0, 2], [2, 0]]))
    memory = kept._memory(benchmark.session(0))
    for (index, row), image, label in zip(kept.places.tolist(), memory.images, memory.labels, strict=True):
        origin = benchmark.session(index)
        assert origin.images is not None
        assert torch.equal(image, origin.images[row])
        assert label == origin.labels[row]


@pytest.mark.parametrize("budget", [Budget(per_class=2), Budget(total=20), Budget(per_class=3, total=20)])
def test_more_than_the_budget_is_refused(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Collector, "memory", lambda self: budget)
    with pytest.raises(ValueError, match=r"After session [01] .* wants to keep .* and its budget is"):
        ran(Collector(per_class=3))


@pytest.mark.parametrize("rows", [[0, 0], [-1], [10**6], [0.5]])
def test_what_is_no_row_is_refused(rows: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Collector, "keep", lambda self, session: torch.tensor(rows))
    with pytest.raises(ValueError, match=r"keep\(\) must give numbers of 104 rows"):
        ran(Collector())


def test_everything() -> None:
    assert ran(Collector()).kept_images == BASE * 13 + WAY * SESSIONS * SHOT


def test_a_draw_with_the_base_session_of_another_has_its_images(tmp_path: Path) -> None:
    fits = BaseFits(tmp_path, "one network")
    seen = []
    for _ in range(2):
        ran(method := Collector(total=26), fits=fits)
        seen.append(method.seen_)
    assert seen[0] == seen[1]


def test_a_killed_draw_goes_on_with_its_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(whole := Collector(total=26))
    state, fit = DrawState(tmp_path, "one draw"), Collector.fit_novel

    def dying(self: Collector, session: Session) -> None:
        if session.index == 2:
            raise KeyboardInterrupt
        fit(self, session)

    monkeypatch.setattr(Collector, "fit_novel", dying)
    with pytest.raises(KeyboardInterrupt):
        ran(Collector(total=26), under_way=state)
    monkeypatch.setattr(Collector, "fit_novel", fit)
    outcome = ran(method := Collector(total=26), under_way=state)
    assert method.seen_ == whole.seen_
    assert outcome.kept_images == 24
    state.forget(method)
    assert not list(tmp_path.iterdir())

"""What was learned of the base session: kept to the bit, read only where it belongs, learned again otherwise."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_benchmark import CPU, DEPTH, kept_for, prepared, tiny_benchmark

from fscil.core import config as configs
from fscil.core.storage import read_json
from fscil.data import Session
from fscil.evaluation import fits as fits_module
from fscil.evaluation.fits import BaseFits, Course, DrawState, _read, _write
from fscil.experiments.run import Run
from fscil.methods import TEEN, Finetune, Prototypes
from fscil.training.checkpoint import read_tensors


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    state = {
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "again": (shared := torch.arange(4.0)),
        "once more": shared,
        "a part": shared[1:3],
        "expanded": torch.ones(1, 3).expand(4, 3),
        "kinds": [torch.tensor(2.5, dtype=torch.float64), torch.tensor([True]), torch.empty(0, 4)],
        "by block": {3: torch.arange(4), 11: ()},
        "range": range(2, 9, 3),
        "plain": (1, 0.1 + 0.2, float("inf"), "é", None, True, ["x", (2,)]),
        "device": torch.device("cpu"),
    }
    method = Prototypes()
    method.load_state_dict({f"{name}_": value for name, value in state.items()})
    _write(tmp_path / "x.safetensors", "inputs", kept_for(method), {})
    again = Prototypes()
    assert _read(tmp_path / "x.safetensors", "inputs", kept_for(again), CPU) == {}
    found = {name.removesuffix("_"): value for name, value in again.state_dict().items()}

    def same(one: Any, two: Any) -> bool:
        if isinstance(one, torch.Tensor):
            return one.dtype == two.dtype and torch.equal(one, two)
        if isinstance(one, dict):
            return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
        if isinstance(one, list | tuple):
            return type(one) is type(two) and len(one) == len(two) and all(map(same, one, two))
        return type(one) is type(two) and bool(one == two)

    assert same(state, found)
    assert found["transposed"].stride() == (1, 3)


class Counted(Prototypes):
    fits = 0

    def fit_base(self, session: Session) -> None:
        type(self).fits += 1
        super().fit_base(session)


def learned(fits: BaseFits, method: Counted | None = None, seed: int = 0) -> Counted:
    method = method or Counted()
    method.start(seed=seed, depth=DEPTH, device=CPU)
    fits.learn(kept_for(method), lambda: prepared(method, tiny_benchmark())[0], CPU)
    return method


def test_it_is_read_only_where_it_was_made_from_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "fits", 0)
    fits = BaseFits(tmp_path, "a")
    first = learned(fits)
    assert torch.equal(learned(fits).prototypes_, first.prototypes_)
    assert Counted.fits == 1
    learned(fits, seed=1)
    learned(BaseFits(tmp_path, "b"), seed=1)
    assert Counted.fits == 3
    assert len(list(tmp_path.iterdir())) == 1  # the last one of a method
    path = tmp_path / "prototypes.safetensors"
    whole = path.read_bytes()
    for damage in (whole[:100], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damage)
        again = learned(BaseFits(tmp_path, "b"), seed=1)
        assert torch.equal(again.prototypes_, first.prototypes_)
    assert Counted.fits == 6
    fits.forget(first)
    assert not list(tmp_path.iterdir())


def test_other_options_are_another_fit(tmp_path: Path) -> None:
    fits, bases = BaseFits(tmp_path, "a"), []
    for share in (0.1, 0.5):
        method = TEEN(share=share)
        method.start(seed=0, depth=DEPTH, device=CPU)
        fits.learn(kept_for(method), lambda: prepared(method, tiny_benchmark())[0], CPU)  # noqa: B023
        bases.append(read_tensors(tmp_path / "teen.safetensors")[1]["inputs"])
    assert bases[0] != bases[1]


CONFIG = configs.load("digits", ["draws=3", "train.epochs=1", "accelerator=cpu", "methods=prototypes"])


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    fit = Prototypes.fit_base

    def counted(self: Prototypes, session: Session) -> None:
        calls.append(1)
        fit(self, session)

    monkeypatch.setattr(Prototypes, "fit_base", counted)
    return calls


@pytest.mark.slow
def test_a_run_learns_the_base_session_once_also_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counting(monkeypatch)
    Run.open(CONFIG, tmp_path / "whole").evaluate()
    assert len(calls) == 1
    assert not list((tmp_path / "whole" / "fitted").iterdir())  # all draws are measured
    killed = Run.open(CONFIG, tmp_path / "killed")
    novel = Prototypes.fit_novel
    monkeypatch.setattr(Prototypes, "fit_novel", lambda self, session: (novel(self, session), _stop_in_second(killed)))
    with pytest.raises(KeyboardInterrupt):
        killed.evaluate()
    monkeypatch.setattr(Prototypes, "fit_novel", novel)
    paths = Run.open(CONFIG, tmp_path / "killed", resume=True).evaluate()
    assert len(calls) == 2
    for path in paths:
        one, two = read_json(path), read_json(tmp_path / "whole" / path.relative_to(tmp_path / "killed"))
        assert one["matrix"] == two["matrix"]
    base = dataclasses.replace(CONFIG, draws=1)
    Run.open(base, tmp_path / "one").evaluate()
    assert not (tmp_path / "one" / "fitted").exists()  # nobody would read it


@pytest.mark.parametrize("draws", [1, 2])
def test_a_run_of_a_method_that_tunes_goes_on_inside_a_draw(
    draws: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [f"draws={draws}", "train.epochs=1", "accelerator=cpu", "methods=finetune", "options.finetune.steps=2"]
    config = configs.load("digits", settings)
    whole = Run.open(config, tmp_path / "whole").evaluate()
    fit, learned = Finetune.fit_novel, []

    def dying(self: Finetune, session: Session) -> None:
        learned.append(session.index)
        fit(self, session)
        if len(learned) == 2 * draws:
            raise KeyboardInterrupt

    monkeypatch.setattr(Finetune, "fit_novel", dying)
    with pytest.raises(KeyboardInterrupt):
        Run.open(config, tmp_path / "killed").evaluate()
    assert (tmp_path / "killed" / "fitted" / "finetune-under-way.safetensors").exists()
    paths = Run.open(config, tmp_path / "killed", resume=True).evaluate()
    assert learned == [1, 2] * draws + [2]  # session 1 was not learned again
    for one, two in zip(paths, whole, strict=True):
        assert read_json(one)["matrix"] == read_json(two)["matrix"]
        assert read_json(one)["title"] == "Fine-tuning (reference)"
        assert read_json(one)["cost"]["kept_images"] == 0
    assert not list((tmp_path / "killed" / "fitted").iterdir())


def test_a_state_of_something_else_or_damaged_is_not_gone_on_from(tmp_path: Path) -> None:
    def course(method: Finetune, of: str = "a draw", seed: int = 0) -> Course | None:
        method.start(seed=seed, depth=DEPTH, device=CPU)
        return DrawState(tmp_path, of).load(kept_for(method), CPU)

    method = Finetune()
    method.start(seed=0, depth=DEPTH, device=CPU)
    kept = kept_for(method)
    kept.learn(prepared(method, tiny_benchmark())[0])
    left = Course([[50.0]], {"part": [[25.0]]}, 1.5, 7)
    DrawState(tmp_path, "a draw").save(kept, left)
    assert course(Finetune()) == left
    assert course(Finetune(), of="another draw") is None
    assert course(Finetune(), seed=1) is None
    assert course(Finetune(lr=0.5)) is None
    path = tmp_path / "finetune-under-way.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    assert course(Finetune()) is None
    kept = kept_for(frozen := Prototypes())
    frozen.start(seed=0, depth=DEPTH, device=CPU)
    DrawState(tmp_path, "a draw").save(kept, left)  # what is learned faster than written is not written
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def _stop_in_second(run: Run) -> None:
    if run.result_paths()[0].exists():
        raise KeyboardInterrupt


@pytest.mark.slow
def test_every_draw_says_what_the_base_session_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(fits_module, "clock", lambda device: lambda: clock[0])
    fit = Prototypes.fit_base

    def slow(self: Prototypes, session: Session) -> None:
        clock[0] += 1000
        fit(self, session)

    monkeypatch.setattr(Prototypes, "fit_base", slow)
    paths = Run.open(CONFIG, tmp_path / "run").evaluate()
    assert clock[0] == 1000
    assert [round(read_json(path)["seconds"]["sessions"]) for path in paths] == [1000] * 3


@pytest.mark.slow
def test_force_learns_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counting(monkeypatch)
    run = Run.open(CONFIG, tmp_path / "run")
    run.on.fill([run._cell("prototypes", 0)])
    assert (tmp_path / "run" / "fitted" / "prototypes.safetensors").exists()
    Run.open(CONFIG, tmp_path / "run", force=True).evaluate()
    assert len(calls) == 2

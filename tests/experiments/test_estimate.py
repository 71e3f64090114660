"""What `fscil run --check` says a run takes."""

from __future__ import annotations

import time

import pytest
import torch

from fscil.core import config as configs
from fscil.core.progress import Reporter
from fscil.experiments.estimate import Estimate, estimate
from fscil.experiments.layers import most_points
from fscil.experiments.preflight import preflight
from fscil.training.trainer import Trainer


def estimated(*changes: str, loading: float = 0.0) -> Estimate:
    config = configs.load("digits", list(changes))
    return estimate(config, preflight(config, Reporter(quiet=True)), loading)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is told by the wall clock")
def test_what_other_programs_take_is_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold the process up, as sleep does."""
    step, naps = Trainer.step, []

    def held_up(self: Trainer, index: int) -> None:
        time.sleep(0.2)
        naps.append(index)
        step(self, index)

    monkeypatch.setattr(Trainer, "step", held_up)
    found = estimated()
    assert len(naps) > 2
    assert found.training < found.steps * 0.2 / 2


def test_it_counts_what_a_report_needs() -> None:
    found = estimated("train.epochs=1", loading=7.0)
    assert found.maps > 0
    assert found.loading >= 7
    assert found.seconds == pytest.approx(found.loading + found.training + found.features + found.methods + found.maps)
    without = estimated("train.epochs=1", "methods=['prototypes']")
    assert without.maps == 0


def test_a_map_has_no_more_points_than_are_expected() -> None:
    benchmark = preflight(configs.load("digits", []), Reporter(quiet=True))
    assert most_points(benchmark) == (benchmark.base + benchmark.way * benchmark.novel_sessions) * 30

"""What the built-in benchmark promises, measured again from the stored network: YourSelf against the plain one."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.experiments.run import Run
from fscil.results.significance import paired

ROOT = Path(__file__).parents[1]


def judge(baseline: list[dict], ours: list[dict]) -> None:
    """At least 1.0 point of gAcc above the baseline, clearly so, and aAcc not lower by 0.3."""
    gains = [b["metrics"]["gacc_grid"] - a["metrics"]["gacc_grid"] for a, b in zip(baseline, ours, strict=True)]
    assert len(gains) == 3
    assert fmean(gains) >= 1.0
    assert paired(gains).clear
    assert fmean(r["metrics"]["aacc"] for r in ours) > fmean(r["metrics"]["aacc"] for r in baseline) - 0.3
    for result in baseline:
        assert 75 <= result["matrix"][0][0] <= 92
        assert result["metrics"]["novel"] < result["metrics"]["base"] - 10


def test_the_stored_results_keep_the_promise() -> None:
    def read(method: str) -> list[dict]:
        return [
            json.loads((ROOT / "results" / "glyphs" / method / f"shots-{draw}" / "result.json").read_text())
            for draw in range(3)
        ]

    judge(read("prototypes"), read("yourself"))


@pytest.mark.slow
def test_the_stored_network_keeps_it_again(tmp_path: Path) -> None:
    stored = ROOT / "checkpoints" / "glyphs.safetensors"
    run = Run.open(configs.load("glyphs"), tmp_path / "glyphs", checkpoint=stored)
    try:
        run.train()
    except InputError:
        pytest.skip("this matplotlib carries other fonts than the stored network was trained on")
    results = [json.loads(path.read_text()) for path in run.evaluate()]
    judge(*[[r for r in results if r["method"] == name] for name in ("prototypes", "yourself")])

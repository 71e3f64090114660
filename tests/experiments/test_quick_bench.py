"""`fscil bench --quick`: what is chosen, against sums made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import fscil

from fscil.core.config import Config
from fscil.experiments.bench.plan import BenchRequest, Plan, PlannedMethod
from fscil.experiments.bench.quick import quick
from fscil.experiments.runner import NetworkPlace


def plan(tmp_path: Path, given: bool = False) -> Plan:
    """Three methods on one network, two on another, one on a third."""
    shared, second, third = (
        NetworkPlace(Config(recipe=name), tmp_path / name, Path("given") if given and name == "shared" else None)
        for name in ("shared", "second", "third")
    )
    places = {
        "prototypes": shared, "lazy": shared, "yourself": shared, "teen": shared, "ridge": shared,
        "alice": second, "fecam": second, "s3c": third,
    }  # fmt: skip
    methods = tuple(PlannedMethod(name, Config(), place) for name, place in places.items())
    return Plan(BenchRequest(draws=2, out=tmp_path), Config(), methods, {"topic": "Why."})


KNOWN = {
    "shared/base": 300.0, "second/base": 500.0, "third/base": 100.0, "shared/prototypes": 1.0, "shared/lazy": 1.0,
    "shared/yourself": 60.0, "shared/teen": 2.0, "shared/ridge": 700.0, "second/alice": 100.0, "second/fecam": 3.0,
}  # fmt: skip


def test_what_fits_is_taken_the_cheapest_first_and_a_network_counts_once(tmp_path: Path) -> None:
    # 300 + 2 * (1 + 1 + 60) = 424; teen 4: 428; fecam 500 + 6: 934; alice, its network there: 200: 1,134; ridge: no.
    found = quick(plan(tmp_path), KNOWN)
    assert [planned.method for planned in found.methods] == ["prototypes", "lazy", "yourself", "teen", "alice", "fecam"]
    assert found.left_out["topic"] == "Why."
    assert found.left_out["ridge"] == "It would take 23 min more; --quick stops at 20 minutes."
    assert "not measured" in found.left_out["s3c"]
    assert list(found.left_out) == ["topic", "s3c", "ridge"]


def test_without_room_for_the_second_of_a_network(tmp_path: Path) -> None:
    found = quick(plan(tmp_path), {**KNOWN, "second/alice": 134.0})  # 934 + 268 = 1,202
    assert "alice" in found.left_out
    found = quick(plan(tmp_path), {**KNOWN, "second/alice": 133.0})  # 1,200
    assert "alice" not in found.left_out


def test_a_network_that_is_given_costs_nothing(tmp_path: Path) -> None:
    found = quick(plan(tmp_path, given=True), {**KNOWN, "second/alice": 250.0})  # 634 + 500 = 1,134
    assert "alice" not in found.left_out


def test_what_others_are_compared_with_is_always_there(tmp_path: Path) -> None:
    found = quick(plan(tmp_path), {})
    assert [planned.method for planned in found.methods] == ["prototypes", "lazy", "yourself"]


def test_the_command_says_what_it_leaves_out_and_refuses_a_list(tmp_path: Path) -> None:
    done = fscil("bench", "--quick", "--data", "glyphs", "--dry-run", "--json", "--out", str(tmp_path / "b"))
    assert done.returncode == 0, done.stderr
    assert "left out: " in done.stderr
    assert json.loads(done.stdout)["forecast"]["work"] <= 20 * 60
    assert not (tmp_path / "b").exists()
    done = fscil("bench", "--quick", "--methods", "teen", "--out", str(tmp_path / "b"))
    assert done.returncode == 2
    assert "--quick chooses among all methods" in done.stderr


@pytest.mark.parametrize("draws", [1, 3])
def test_the_shipped_durations_keep_it_within_twenty_minutes(tmp_path: Path, draws: int) -> None:
    from fscil.experiments.bench.foresee import known
    from fscil.experiments.bench.plan import make_plan

    whole = make_plan(BenchRequest(data="glyphs", draws=draws, out=tmp_path, overrides=("accelerator=cpu",)))
    seconds = known(whole)
    found = quick(whole, seconds)
    bases = {planned.network.key for planned in found.methods}
    total = sum(seconds[f"{key}/base"] for key in bases)
    total += sum(draws * seconds[f"{planned.network.key}/{planned.method}"] for planned in found.methods)
    assert 600 < total <= 1200
    assert len(found.methods) > 5

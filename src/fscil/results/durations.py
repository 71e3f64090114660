"""How long base trainings and sessions took in a folder of results, and as it comes with the package."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fscil.results.grouping import collect, only
from fscil.results.result import Result

SHIPPED_DURATIONS = Path(__file__).with_name("durations.json")


@dataclass(frozen=True)
class Duration:
    """Seconds of one kind of work on one kind of machine."""

    dataset: str
    work: str  # a method, or the recipe of a base training
    device: str
    machine: str
    seconds: float
    epochs: int = 0  # of a base training; 0: sessions


def durations(results: Path) -> list[Duration]:
    """Of sessions the median over all networks and draws; of base trainings over those of one recipe.

    A result says where its sessions were learned. Its network may come from elsewhere: where a data set has results of
    a GPU, all its networks are taken to be trained on one.
    """
    measured = only(collect(results), rectified=False)
    every = [result for benchmark in measured for group in benchmark.groups for result in group.results]
    on_gpu = {result.dataset for result in every if result.hardware.get("device") == "cuda"}
    found: dict[tuple[str, str, str, str, int], list[float]] = {}
    for result in every:
        place = result.dataset, str(result.hardware.get("device", "")), str(result.hardware.get("name", ""))
        for work, key, epochs in _works(result):
            if key == "base" and result.dataset in on_gpu and place[1] != "cuda":
                continue
            if seconds := result.seconds.get(key):
                found.setdefault((place[0], work, *place[1:], epochs), []).append(seconds)
    return [
        Duration(dataset, work, device, machine, round(median(seconds), 2), epochs)
        for (dataset, work, device, machine, epochs), seconds in sorted(found.items())
    ]


def _works(result: Result) -> Iterable[tuple[str, str, int]]:
    stages: list[Any] = [result.config.get("train"), result.config.get("second")]
    epochs = sum(stage.get("epochs", 0) for stage in stages if stage)
    return (result.method, "sessions", 0), (result.recipe, "base", epochs)


def as_lines(found: Iterable[Duration]) -> str:
    """The stored file: a line for each, so that two changes seldom meet."""
    lines = ",\n".join(f" {json.dumps(asdict(each))}" for each in found)
    return f"[\n{lines}\n]\n"


def shipped_durations() -> list[Duration]:
    return [Duration(**each) for each in json.loads(SHIPPED_DURATIONS.read_text(encoding="utf-8"))]

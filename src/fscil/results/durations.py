"""How long base trainings and sessions took in a folder of results, and as it comes with the package."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fscil.results.grouping import Group, collect, only
from fscil.results.result import Result

_Key = tuple[str, str, str, str, int]  # data set, work, device, machine, epochs
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


def durations(results: Path, unusual: Callable[[Group], object] = lambda group: False) -> list[Duration]:
    """Of sessions the median over all networks and draws; of base trainings over those of one recipe. Of what is
    `unusual`, such as a method that was trained longer than its recipe says, only where there is nothing else.

    A result says where its sessions were learned. Its network may come from elsewhere: where a data set has results of
    a GPU, all its networks are taken to be trained on one.
    """
    measured = only(collect(results), rectified=False)
    groups = [group for benchmark in measured for group in benchmark.groups]
    devices = {(result.dataset, result.hardware.get("device")) for group in groups for result in group.results}
    on_gpu = {dataset for dataset, device in devices if device == "cuda"}
    odd = [group for group in groups if unusual(group)]
    found = _seconds(odd, on_gpu) | _seconds([group for group in groups if group not in odd], on_gpu)
    return [
        Duration(dataset, work, device, machine, round(median(seconds), 2), epochs)
        for (dataset, work, device, machine, epochs), seconds in sorted(found.items())
    ]


def _seconds(groups: Iterable[Group], on_gpu: set[str]) -> dict[_Key, list[float]]:
    found: dict[_Key, list[float]] = {}
    for result in (result for group in groups for result in group.results):
        place = result.dataset, str(result.hardware.get("device", "")), str(result.hardware.get("name", ""))
        for work, key, epochs in _works(result):
            if key == "base" and result.dataset in on_gpu and place[1] != "cuda":
                continue
            if seconds := result.seconds.get(key):
                found.setdefault((place[0], work, *place[1:], epochs), []).append(seconds)
    return found


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

"""Stored results, sorted: by data set and class plan, then one group per method and setting, over its draws."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.storage import read_json
from fscil.results.ablation import Ablation, is_ablation, parse_ablation
from fscil.results.result import Result, check_comparable, is_result, json_files, parse_result
from fscil.results.significance import Spread, spread

# Keys that say which run it was and where, not what was run.
_NO_SETTING = frozenset(
    {"recipe", "seed", "draws", "methods", "accelerator", "devices", "strategy", "precision", "path", "download", "log"}
)
_SPELLINGS = {"miniimagenet": "mini", "cub": "cub200", "cub2002011": "cub200", "cifar": "cifar100"}


def dataset_key(name: str) -> str:
    """The one key of a data set, however it is spelt."""
    plain = "".join(char for char in name.lower() if char.isalnum())
    return _SPELLINGS.get(plain, plain)


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections to dotted keys."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def settings(result: Result) -> dict[str, str | float]:
    """What shapes a run, by dotted key: numbers, and everything else as text."""
    found: dict[str, str | float] = {}
    for key, value in flat(result.config).items():
        if key.split(".")[-1] not in _NO_SETTING and value not in (None, {}):
            plain = isinstance(value, bool | int | float)
            found[key] = float(value) if plain else value if isinstance(value, str) else json.dumps(value)
    return found


def group_draws(results: Iterable[Result]) -> list[list[Result]]:
    """Draws of one method with the same setting belong together; a draw that is there twice is refused."""
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        plan = (result.method, result.title, result.recipe, result.dataset, result.matrix.classes)
        groups.setdefault((*plan, tuple(sorted(settings(result).items()))), []).append(result)
    for group in groups.values():
        check_comparable(group)
    return list(groups.values())


@dataclass(frozen=True)
class Group:
    """One method with one setting, over its draws."""

    name: str
    results: tuple[Result, ...]
    files: tuple[Path, ...]  # relative to the folder of results

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def folder(self) -> str:
        """What the paths of its files have in common."""
        return os.path.commonpath([path.parent.as_posix() or "." for path in self.files])

    def spread(self, key: str) -> Spread | None:
        """Of one of `fscil.results.result.SCALARS`."""
        values = [value for result in self.results if (value := result.quantity(key)) is not None]
        return spread(values) if values else None


@dataclass(frozen=True)
class MeasuredBenchmark:
    """Everything measured on one data set with one class plan."""

    dataset: str
    classes: tuple[int, ...]
    groups: tuple[Group, ...]
    ablations: tuple[tuple[Path, Ablation], ...]


def collect(folder: Path) -> list[MeasuredBenchmark]:
    """Every result and ablation below the folder, whatever its file is called; other files are left alone."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the results.")
    results: list[Result] = []
    ablations: list[tuple[Path, Ablation]] = []
    for path in json_files(folder):
        document = read_json(path)
        if is_ablation(document):
            ablations.append((path.relative_to(folder), parse_ablation(document, str(path))))
        elif is_result(document) or path.name == "result.json":  # a damaged one is complained of
            results.append(parse_result(document, str(path)))

    def plan_of(measured: Result | Ablation) -> tuple[str, tuple[int, ...]]:
        classes = measured.matrix.classes if isinstance(measured, Result) else measured.classes
        return dataset_key(measured.dataset), classes

    everything: list[Result | Ablation] = [*results, *(ablation for _, ablation in ablations)]
    plans = {plan_of(each): each.dataset for each in everything}
    return [
        MeasuredBenchmark(
            dataset=name,
            classes=plan[1],
            groups=_named([r for r in results if plan_of(r) == plan], lambda r: Path(r.source).relative_to(folder)),
            ablations=tuple(entry for entry in ablations if plan_of(entry[1]) == plan),
        )
        for plan, name in sorted(plans.items())
    ]


def only(measured: Iterable[MeasuredBenchmark], *, rectified: bool) -> list[MeasuredBenchmark]:
    """What was measured of methods behind FR modules (`rectify`), or of methods as they are, with the ablations."""
    parts = [
        replace(
            each,
            groups=tuple(group for group in each.groups if group.first.rectified == rectified),
            ablations=() if rectified else each.ablations,
        )
        for each in measured
    ]
    return [part for part in parts if part.groups or part.ablations]


def _named(results: Sequence[Result], file_of: Callable[[Result], Path]) -> tuple[Group, ...]:
    """In the order of their first files."""
    groups = []
    for found in group_draws(results):
        members = tuple(sorted(found, key=lambda result: (result.draw, file_of(result))))
        name = ", ".join(filter(None, (members[0].title, members[0].recipe)))
        groups.append(Group(name, members, tuple(map(file_of, members))))
    names = [group.name for group in groups]
    return tuple(
        replace(group, name=f"{group.name} ({group.folder})") if names.count(group.name) > 1 else group
        for group in groups
    )

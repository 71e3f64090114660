"""The stored results, sorted: by data set and class plan, then one group per method and setting, over its draws."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.storage import read_json
from fscil.paper.runs import Run, dataset_key, settings
from fscil.results.ablation import Ablation, is_ablation, parse
from fscil.results.comparison import Spread, quantities, spread
from fscil.results.result import Result, check_comparable, parse_result


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
        """Of a column of the comparison (fscil.pages.report)."""
        values = [value for result in self.results if (value := quantities(result)[key]) is not None]
        return spread(values) if values else None


@dataclass(frozen=True)
class Shelf:
    """Everything measured on one data set with one class plan."""

    dataset: str
    classes: tuple[int, ...]
    groups: tuple[Group, ...]
    ablations: tuple[tuple[Path, Ablation], ...]


def collect(folder: Path) -> list[Shelf]:
    """Every result and ablation below the folder, whatever its file is called; other files are left alone."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the results.")
    results: list[tuple[Path, Result]] = []
    ablations: list[tuple[Path, Ablation]] = []
    for path in sorted(folder.rglob("*.json")):
        document = read_json(path)
        if is_ablation(document):
            ablations.append((path.relative_to(folder), parse(document, str(path))))
        elif _is_result(document):
            results.append((path.relative_to(folder), parse_result(document, str(path))))
    plans = {(dataset_key(r.dataset), r.matrix.classes): r.dataset for _, r in results}
    plans |= {(dataset_key(a.dataset), a.classes): a.dataset for _, a in ablations}
    return [
        Shelf(
            dataset=name,
            classes=classes,
            groups=_groups([e for e in results if (dataset_key(e[1].dataset), e[1].matrix.classes) == (key, classes)]),
            ablations=tuple(e for e in ablations if (dataset_key(e[1].dataset), e[1].classes) == (key, classes)),
        )
        for (key, classes), name in sorted(plans.items())
    ]


def _groups(entries: list[tuple[Path, Result]]) -> tuple[Group, ...]:
    """In the order of their first files."""
    by_setting: dict[str, list[tuple[Path, Result]]] = {}
    for path, result in entries:
        by_setting.setdefault(_setting(result), []).append((path, result))
    groups = []
    for found in by_setting.values():
        members = sorted(found, key=lambda entry: (entry[1].draw, entry[0]))
        results = tuple(result for _, result in members)
        check_comparable(results)  # refuses a draw that is stored twice
        name = ", ".join(filter(None, (results[0].title, results[0].recipe)))
        groups.append(Group(name, results, tuple(path for path, _ in members)))
    names = [group.name for group in groups]
    return tuple(
        replace(group, name=f"{group.name} ({group.folder})") if names.count(group.name) > 1 else group
        for group in groups
    )


def _setting(result: Result) -> str:
    """Draws of one method with the same setting belong together; seeds, hardware and paths are not settings."""
    run = Run(result.method, result.title, result.dataset, result.matrix, result.source, config=result.config)
    return repr((result.method, result.recipe, sorted(settings(run).items())))


def _is_result(document: Any) -> bool:
    return isinstance(document, dict) and {"method", "matrix", "classes", "metrics"} <= document.keys()

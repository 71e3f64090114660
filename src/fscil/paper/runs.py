"""A user's result files, as series to stand beside the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.core.storage import read_json
from fscil.paper.printed import Dataset
from fscil.paper.series import Series

_IGNORED = frozenset(
    {"recipe", "seed", "draws", "methods", "accelerator", "devices", "strategy", "precision", "path", "download"}
)
_NAMES = {"miniimagenet": "mini", "cub": "cub200", "cub2002011": "cub200", "cifar": "cifar100"}


@dataclass(frozen=True)
class Run:
    """One result.json. Its metrics are computed from its matrix, never taken over."""

    method: str
    title: str
    dataset: str
    matrix: AccuracyMatrix
    source: str
    draw: tuple[object, object] = (None, None)  # seed of the training, seed of the shots
    config: Mapping[str, Any] = field(default_factory=dict)


def load_runs(paths: Iterable[str | Path]) -> list[Run]:
    """Every result in the given files and folders."""
    return [_load(path) for given in paths for path in _files(Path(given))]


def as_series(runs: Sequence[Run]) -> list[Series]:
    """Draws of one method with the same settings become one series; other settings are another series."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        key = (run.method, run.title, run.dataset, run.matrix.classes, tuple(sorted(settings(run).items())))
        groups.setdefault(key, []).append(run)
    series = []
    for group in groups.values():
        _refuse_twins(group)
        first = group[0]
        leaders = (other[0] for other in groups.values())
        rivals = [run for run in leaders if (run.method, run.dataset) == (first.method, first.dataset)]
        suffix = _differing(first, rivals)
        title, matrices = f"{first.title}{suffix}", tuple(run.matrix for run in group)
        series.append(Series(f"{first.method}{suffix}", title, first.dataset, matrices, yours=True))
    return series


def settings(run: Run) -> dict[str, str | float]:
    """What shapes a run, as dotted keys; not its seeds, its hardware, or where its files lie."""
    return {name: value for name, value in _flat(run.config).items() if name.split(".")[-1] not in _IGNORED}


def comparable(series: Sequence[Series], dataset: Dataset, *, any_dataset: bool = False) -> list[Series]:
    """The same series, if they may stand beside published numbers of that data set."""
    for entry in series:
        if entry.classes != dataset.classes:
            raise InputError(
                f"{entry.title} has classes {_plan(entry.classes)}, {dataset.title} has {_plan(dataset.classes)}; "
                f"such rows do not fit into one table."
            )
        if dataset_key(entry.dataset) != dataset.key and not any_dataset:
            raise InputError(
                f"{entry.title} was measured on {entry.dataset}, this is {dataset.title}: the numbers are not "
                f"comparable; choose a table or figure of its data set, or add --any-dataset to see them side by side."
            )
    return list(series)


def dataset_key(name: str) -> str:
    """The catalogue's key for a data set however it is spelt."""
    plain = "".join(char for char in name.lower() if char.isalnum())
    return _NAMES.get(plain, plain)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"{path} does not exist; give a result.json or a folder that holds some.")
    if path.is_file():
        return [path]
    found = [file for file in sorted(path.rglob("*.json")) if _is_result(file)]
    if not found:
        raise InputError(f"{path} holds no result; give a result.json or a folder that holds some.")
    return found


def _is_result(path: Path) -> bool:
    try:
        document = read_json(path)
    except InputError:
        return False
    return isinstance(document, dict) and {"method", "matrix", "classes"} <= document.keys()


def _load(path: Path) -> Run:
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise InputError(f"{path} is not a result of this program (schema 1); give a result.json.")
    missing = [key for key in ("method", "dataset", "classes", "matrix") if key not in document]
    if missing:
        raise InputError(f"{path} has no '{missing[0]}'; give a result.json that is complete.")
    try:
        matrix = AccuracyMatrix.from_lists(document["matrix"], document["classes"], document.get("test_counts") or ())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"{path} has something other than numbers in its matrix or counts; write it again.") from None
    config = document.get("config")
    return Run(
        method=str(document["method"]),
        title=str(document.get("title") or document["method"]),
        dataset=str(document["dataset"]),
        matrix=matrix,
        source=str(path),
        draw=(document.get("seed"), document.get("shots_seed")),
        config=config if isinstance(config, dict) else {},
    )


def _plan(classes: tuple[int, ...]) -> str:
    if len(classes) > 2 and len(set(classes[1:])) == 1:
        return f"{classes[0]} + {len(classes) - 1} x {classes[1]}"
    return " + ".join(map(str, classes))


def _refuse_twins(runs: Sequence[Run]) -> None:
    seen: dict[tuple[object, object], Run] = {}
    for run in runs:
        twin = seen.setdefault(run.draw, run)
        if twin is not run:
            raise InputError(f"{twin.source} and {run.source} are the same draw of {run.method}; give each draw once.")


def _differing(run: Run, rivals: Sequence[Run]) -> str:
    """What tells a method's runs apart, as part of its name: their recipes, else the settings in which they differ."""
    recipes = [str(rival.config.get("recipe") or "") for rival in rivals]
    if len(rivals) > 1 and all(recipes) and len(set(recipes)) == len(recipes):
        return f" ({run.config['recipe']})"
    flat = [settings(rival) for rival in rivals]
    names = sorted({name for entry in flat for name in entry})
    own = settings(run)
    parts = []
    for name in names:
        if len({entry.get(name) for entry in flat}) > 1:
            value = own.get(name, "unset")
            shown = f"{value:g}" if isinstance(value, float) else value
            parts.append(f"{name.split('.')[-1]} {shown}")
    return f" ({', '.join(parts)})" if parts else ""


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str | float]:
    """Dotted keys of all numbers, switches and words in a nested config."""
    found: dict[str, str | float] = {}
    for name, value in config.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{path}.")
        elif isinstance(value, bool | int | float):
            found[path] = float(value)
        elif isinstance(value, str):
            found[path] = value
    return found

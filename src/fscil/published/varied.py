"""Which setting a group of runs differs in: the x axis of a sensitivity curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fscil.errors import InputError, nearest
from fscil.published.runs import Run

_IGNORED = frozenset({"seed", "draws", "recipe"})  # they name a run, they do not shape it


def varied_setting(runs: Sequence[Run], key: str | None = None) -> tuple[str, dict[float, list[Run]]]:
    """The numeric setting that differs between the runs, and the runs by its value; `key` chooses among several."""
    settings = [_flat(run.config) for run in runs]
    names = sorted({name for flat in settings for name in flat})
    varied = [name for name in names if len({flat.get(name) for flat in settings}) > 1]
    if key is not None:
        if key not in names:
            raise InputError(f"No run has a setting '{key}'; {nearest(key, names)}")
        varied = [key]
    if not varied:
        raise InputError("The runs do not differ in any numeric setting; a sensitivity curve needs runs that do.")
    if len(varied) > 1:
        raise InputError(f"The runs differ in {', '.join(varied)}; choose one with --vary.")
    groups: dict[float, list[Run]] = {}
    for run, flat in zip(runs, settings, strict=True):
        if varied[0] not in flat:
            raise InputError(f"{run.source} does not state '{varied[0]}'; leave it out.")
        groups.setdefault(flat[varied[0]], []).append(run)
    return varied[0], groups


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Dotted keys of all numbers and switches in a nested config."""
    found: dict[str, float] = {}
    for name, value in config.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{path}.")
        elif isinstance(value, bool | int | float) and path not in _IGNORED:
            found[path] = float(value)
    return found

"""Which setting a group of runs differs in: the x axis of a sensitivity curve."""

from __future__ import annotations

from collections.abc import Sequence

from fscil.core.errors import InputError, nearest
from fscil.paper.runs import Run, settings


def varied_setting(runs: Sequence[Run], key: str | None = None) -> tuple[str, dict[float, list[Run]]]:
    """The numeric setting that differs between the runs, and the runs by its value; `key` chooses among several."""
    numbers = [{name: value for name, value in settings(run).items() if isinstance(value, float)} for run in runs]
    names = sorted({name for entry in numbers for name in entry})
    varied = [name for name in names if len({entry.get(name) for entry in numbers}) > 1]
    if key is not None:
        if key not in names:
            raise InputError(f"No run has a numeric setting '{key}'; {nearest(key, names)}")
        varied = [key]
    if not varied:
        raise InputError("The runs do not differ in any numeric setting; a sensitivity curve needs runs that do.")
    if len(varied) > 1:
        raise InputError(f"The runs differ in {', '.join(varied)}; choose one with --vary.")
    groups: dict[float, list[Run]] = {}
    for run, entry in zip(runs, numbers, strict=True):
        if varied[0] not in entry:
            raise InputError(f"{run.source} does not state '{varied[0]}'; leave it out.")
        groups.setdefault(entry[varied[0]], []).append(run)
    return varied[0], groups

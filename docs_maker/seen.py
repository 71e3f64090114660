"""Choices that were made with test numbers in sight (seen.json): which measured rows rest on them, and their marks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fscil.results.grouping import Group, flat

_MARKS = "¹²³⁴⁵⁶⁷⁸⁹"


@dataclass(frozen=True)
class Choice:
    choice: str  # what was chosen, as a footnote says it
    settings: Mapping[str, Sequence[Any]]  # a row rests on it if each of these, by dotted key, has one of the values
    methods: Sequence[str] = ()  # the methods that it concerns; none: all on the network

    def made_for(self, group: Group) -> bool:
        known = flat(group.first.config)
        concerned = not self.methods or group.first.method in self.methods
        return concerned and all(known.get(key) in values for key, values in self.settings.items())


@cache
def choices() -> tuple[Choice, ...]:
    document = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tuple(Choice(**each) for each in document)


def marks(group: Group) -> str:
    """What goes behind a row's name: nothing, or the marks of the choices that it rests on."""
    found = [mark for mark, choice in zip(_MARKS, choices(), strict=False) if choice.made_for(group)]
    return f" {' '.join(found)}" if found else ""


def footnotes(groups: Sequence[Group]) -> list[str]:
    """One paragraph that explains the marks of these rows, where there are any."""
    used = [
        f"{mark} {choice.choice}"
        for mark, choice in zip(_MARKS, choices(), strict=False)
        if any(choice.made_for(group) for group in groups)
    ]
    return [f"Seen with test numbers in sight when it was chosen: {'; '.join(used)}."] if used else []

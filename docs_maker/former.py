"""Rows older than their recipe or their method: marked, with what was different, until they are measured again.

Settings tell by themselves what changed in a recipe. What changed in a method's code is told by former.json: its name
and the commits of the results from before.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, Config, TrainConfig, build
from fscil.core.errors import InputError
from fscil.methods import make
from fscil.results.grouping import Group, flat

MARK, OLDER = "†", "‡"
_OF_THE_MACHINE = ("checkpoint_seconds", "compile", "graph")  # how a machine runs it is no difference


def differing(group: Group) -> list[str]:
    """Settings of the network and of the method that the recipe of that name has otherwise now: 'key then (now)'."""
    recipe, method = group.first.recipe, group.first.method
    if recipe not in configs.recipes() or not {"backbone", "train"} <= group.first.config.keys():
        return []  # somebody's own, or a result that does not tell
    config = configs.load(recipe)
    now, then = _settings(config), _settings(_of(group.first.config))
    if method in config.methods:
        now |= flat({method: make(method, config.options.get(method)).options()}, "options.")
        then |= flat(_resolved(method, (group.first.config.get("options") or {}).get(method)), "options.")
    if then["train.objective"] == now["train.objective"]:
        # What an objective did before it had an option is not known here; a recipe may name it to keep it so.
        now = {key: value for key, value in now.items() if key in then or ".objective_options." not in key}
    return [
        f"{key} {_shown(then.get(key))} ({_shown(now.get(key))})"
        for key in sorted(then | now)
        if _shown(then.get(key)) != _shown(now.get(key))
    ]


def older(group: Group) -> bool:
    """Whether the method has changed since."""
    changed = _changed()
    return group.first.method in changed["methods"] and group.first.commit in changed["commits"]


@cache
def _changed() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))


def mark(group: Group) -> str:
    found = [sign for sign, holds in ((MARK, differing(group)), (OLDER, older(group))) if holds]
    return f" {' '.join(found)}" if found else ""


def former_notes(groups: Sequence[Group]) -> list[str]:
    """What the marked rows had otherwise, where there are any."""
    found: dict[tuple[str, str], list[str]] = {}  # recipe, differences -> titles of rows
    for group in groups:
        if differences := differing(group):
            found.setdefault((group.first.recipe, ", ".join(differences)), []).append(group.first.title)
    notes = [f"{OLDER} {_changed()['note']}"] if any(map(older, groups)) else []
    if not found:
        return notes
    lines = [f"- {recipe} ({', '.join(titles)}): {text}" for (recipe, text), titles in found.items()]
    opening = f"{MARK} Measured with other settings than the recipe has now (in brackets):"
    return [*notes, opening, "\n".join(lines)]


def _of(stored: Mapping[str, Any]) -> Config:
    """The stored settings that make a network, as settings of today: keys that came later have their defaults."""
    second = stored.get("second")
    return Config(
        backbone=build(BackboneConfig, stored["backbone"]),
        train=build(TrainConfig, stored["train"]),
        second=build(TrainConfig, second) if second else None,
    )


def network_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What made a network, by dotted key: of stored settings, whatever keys there were then."""
    return _settings(_of(stored))


def _settings(config: Config) -> dict[str, Any]:
    found = flat({"backbone": dataclasses.asdict(config.backbone)})
    for name, train in (("train", config.train), ("second", config.second)):
        if train:
            found |= flat({name: dataclasses.asdict(train)})
    return {key: value for key, value in found.items() if key.split(".")[-1] not in _OF_THE_MACHINE}


def _resolved(method: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        return {method: make(method, options).options()}
    except InputError:
        return {method: options or {}}


def _shown(value: Any) -> str:
    if value in (None, "", (), [], {}):
        return "none"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)  # 39 and 39.0 are one setting

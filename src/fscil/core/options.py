"""Options that check themselves: what a field may hold stands in its type, and nowhere else.

    depth: Count = 8  # a whole number of at least 1
    start: Annotated[float, Bounds(low=0, below=1)] = 0.5
    head: Literal["cosine", "etf"] = "cosine"

Recipes, `--set`, the options of methods and those of objectives all pass through `build`; a `Checked` dataclass that is
made directly, or by `replace`, is held to the same types.
"""

import dataclasses
import json
import math
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from fscil.core.errors import InputError, did_you_mean, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """The range of a number: `low` and `high` belong to it, `above` and `below` do not."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def allows(self, value: Any) -> bool:
        return self.low <= value <= self.high and self.above < value < self.below

    def __str__(self) -> str:
        named = {
            "from {} to {}": (self.low, self.high),
            "from {} to below {}": (self.low, self.below),
            "between {} and {}, both excluded": (self.above, self.below),
            "above {} and at most {}": (self.above, self.high),
            "of at least {}": (self.low,),
            "above {}": (self.above,),
            "of at most {}": (self.high,),
            "below {}": (self.below,),
        }
        return next(text.format(*ends) for text, ends in named.items() if all(map(math.isfinite, ends)))


@dataclass(frozen=True)
class Items:
    """How many entries a list has at least; with `unique`, none of them twice."""

    least: int = 0
    unique: bool = False

    def allows(self, value: Any) -> bool:
        return len(value) >= self.least and not (self.unique and len(set(value)) < len(value))

    def __str__(self) -> str:
        return f"with at least {self.least} {'entry' if self.least == 1 else 'entries'}" + ", each once" * self.unique


@dataclass(frozen=True)
class FileName:
    """A text that can be a file's or a folder's name, so that no path is made of it that leads elsewhere."""

    def allows(self, value: Any) -> bool:
        return 0 < len(value) <= 200 and value.isprintable() and value not in (".", "..") and not {*"/\\:"} & {*value}

    def __str__(self) -> str:
        return "that can be a file's name, without / and the like"


@dataclass(frozen=True)
class Hint:
    """A sentence that a refusal ends with: what the reader was probably looking for."""

    text: str


Whole = Annotated[int, Bounds(low=0)]  # 0, 1, 2, ...
Count = Annotated[int, Bounds(low=1)]  # 1, 2, 3, ...
Amount = Annotated[float, Bounds(low=0)]
Positive = Annotated[float, Bounds(above=0)]
Share = Annotated[float, Bounds(low=0, high=1)]
BelowOne = Annotated[float, Bounds(low=0, below=1)]


class Checked:
    """A dataclass whose options are checked however it is made. `prefix` is what its keys are called by in a recipe."""

    prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        types = _types(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if field.init:
                _fit(types[field.name], getattr(self, field.name), f"{self.prefix}{field.name}")


def build(kind: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """A dataclass from a nested mapping; unknown keys and values that do not fit are refused by name."""
    types = _types(kind)
    names = [f.name for f in dataclasses.fields(kind) if f.init]  # type: ignore[arg-type]
    arguments = {}
    for key, value in values.items():
        if key not in names:
            raise InputError(f"Unknown key '{where}{key}'; {_below(kind, key, where)}{nearest(key, names)}")
        arguments[key] = _fit(types[key], value, f"{where}{key}")
    return kind(**arguments)


def _below(kind: type[Any], key: str, where: str) -> str:
    """A hint where a group inside this one has the key."""
    groups = {name: each for name, each in _types(kind).items() if dataclasses.is_dataclass(each)}
    found = next((name for name, each in groups.items() if key in _types(each)), None)
    return f"did you mean '{where}{found}.{key}'? " if found else ""


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values for JSON, in field order."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _types(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _fit(kind: Any, value: Any, where: str) -> Any:
    """`value` as a field of type `kind` holds it; `where` is the field's name in a refusal."""
    if type(None) in typing.get_args(kind):  # a group of keys that may be absent
        if value is None:
            return None
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    kind, *rules = typing.get_args(kind) if typing.get_origin(kind) is Annotated else (kind,)
    if dataclasses.is_dataclass(kind):
        if isinstance(value, kind):  # type: ignore[arg-type]
            return value
        if not isinstance(value, Mapping):
            example = f"{where}.{dataclasses.fields(kind)[0].name}"
            raise InputError(f"'{where}' is a group of keys, not a value; set one of its keys, such as {example}.")
        return build(kind, value, f"{where}.")  # type: ignore[arg-type]
    limits = [rule for rule in rules if not isinstance(rule, Hint)]
    fitted = _converted(kind, value, where)
    broken = limits[:1] if fitted is None else [limit for limit in limits if not limit.allows(fitted)]
    if fitted is None or broken:
        wanted = " ".join([_wanted(kind, value), *map(str, broken)])
        close = did_you_mean(str(value), _words(kind))
        hints = [f" {rule.text}" for rule in rules if isinstance(rule, Hint)]
        raise InputError(f"{where} must be {wanted}; got {value!r:.100}{f' ({close})' * bool(close)}.{''.join(hints)}")
    return fitted


def _converted(kind: Any, value: Any, where: str) -> Any:
    """None where the value is of another kind. No text is taken for a number, and no number for true or false."""
    origin = typing.get_origin(kind)
    if origin in (tuple, Sequence):
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        items = value if isinstance(value, (list, tuple)) else [value]
        return tuple(_fit(typing.get_args(kind)[0], item, where) for item in items)
    if origin is Literal:
        words = typing.get_args(kind)
        given = _converted(type(words[0]), value, where)
        return given if given in words else None
    if origin is not None:
        if not isinstance(value, Mapping):
            raise InputError(f"'{where}' is a group of keys, not a value.")
        inner = typing.get_args(kind)[1]
        return value if inner is Any else {key: _fit(inner, item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, bool) or kind is bool:
        return value if kind is bool and isinstance(value, bool) else None
    if kind is int:
        return int(value) if isinstance(value, Integral) else None
    if kind is float:  # neither nan nor inf, nor an integer too long for a float
        finite = isinstance(value, Real) and abs(value) <= sys.float_info.max  # type: ignore[operator]
        return float(value) if finite else None
    return str(value) if kind is str and isinstance(value, (str, int, float)) else None


def _words(kind: Any) -> list[str]:
    return [word or "empty" for word in map(str, typing.get_args(kind))] if typing.get_origin(kind) is Literal else []


def _wanted(kind: Any, value: Any) -> str:
    if words := _words(kind):
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    if typing.get_origin(kind) is tuple:
        return "a list"
    number = "a number" if not isinstance(value, float) or math.isfinite(value) else "a finite number"
    return {bool: "true or false", int: "a whole number", float: number, str: "text"}.get(kind, str(kind))

"""Which recipe belongs to which method and data set, and what is known of every method."""

import re
import sys
from pathlib import Path
from typing import Any

from fscil.core import config as configs
from fscil.core.errors import InputError, nearest
from fscil.data.registry import REGISTRY as DATASETS
from fscil.methods import REGISTRY, Method
from fscil.results.measured import measured, shipped

_DEFAULT_RECIPES = {"cifar100": "cifar100_resnet12"}  # where the data set's name is not a recipe


def default_recipe(data: str) -> str:
    """The recipe of methods without one of their own."""
    if data not in DATASETS:
        raise InputError(f"There is no data set '{data}'; {nearest(data, DATASETS)}")
    name = _DEFAULT_RECIPES.get(data, data)
    if name not in configs.recipes():
        raise InputError(f"There is no recipe for the data set {data} here; give one with --recipe my.toml.")
    return name


def own_recipe(data: str, method: str) -> str | None:
    """DATA_METHOD.toml, however the method's name is hyphenated there."""
    for name in configs.recipes():
        start, _, rest = name.partition("_")
        if start == data and _plain(rest) == _plain(method):
            return name
    return None


def year_of(paper: str) -> int:
    """The year that a citation names; 0 where there is none."""
    years = re.findall(r"\b(?:19|20)\d\d\b", paper)
    return int(years[-1]) if years else 0


def describe_methods(results: Path | None = None) -> list[dict[str, Any]]:
    """One plain document per method, with the numbers of a folder of results, or those that come with the package."""
    numbers = measured(results) if results else shipped()
    users = {recipe: configs.load(recipe).methods for recipe in configs.recipes()}
    return [
        {
            "name": method.name,
            "title": method.marked_title(),
            "paper": method.paper,
            "year": year_of(method.paper) or None,
            "mark": method.mark,
            "needs": sorted(method.needs),
            "keeps": str(budget) if (budget := method().memory()) else "",
            "recipes": _recipes(method, users),
            "summary": _summary(method),
            "verified": numbers.get(method.name, []),
            "differences": method.differences,
        }
        for method in REGISTRY.values()
    ]


def _summary(method: type[Method]) -> str:
    """The first line of its docstring, or of its file's: a dataclass without one gets its signature for a docstring."""
    own = method.__doc__ or ""
    text = sys.modules[method.__module__].__doc__ or "" if own.startswith(f"{method.__name__}(") else own
    return text.strip().split("\n")[0]


def _recipes(method: type[Method], users: dict[str, tuple[str, ...]]) -> list[str]:
    """Its own recipes, and those that name it and belong to no other method."""
    mine = {recipe for data in DATASETS if (recipe := own_recipe(data, method.name))}
    others = {own_recipe(data, name) for data in DATASETS for name in REGISTRY if name != method.name}
    return sorted(mine | {recipe for recipe, names in users.items() if method.name in names and recipe not in others})


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())

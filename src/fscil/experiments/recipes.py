"""Which recipe belongs to which method and data set, and what is known of every method."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fscil.core import config as configs
from fscil.core.errors import InputError, nearest
from fscil.data.registry import REGISTRY as DATASETS
from fscil.experiments.catalogue import catalogue
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
    methods = catalogue()
    of = _recipes_of(method["name"] for method in methods)
    return [
        {
            "name": method["name"],
            "title": method["title"],
            "paper": method["paper"],
            "year": year_of(method["paper"]) or None,
            "mark": method["mark"],
            "mark_means": method["mark_means"],
            "needs": method["needs"],
            "keeps": method["keeps"],
            "recipes": of[method["name"]],
            "summary": method["summary"],
            "verified": numbers.get(method["name"], []),
            "differences": method["differences"],
        }
        for method in methods
    ]


def _recipes_of(names: Iterable[str]) -> dict[str, list[str]]:
    """For each method its own recipes, and those that name it and belong to no other method."""
    names = list(names)
    own = {recipe: name for data in DATASETS for name in names if (recipe := own_recipe(data, name))}
    of = {name: {recipe for recipe, owner in own.items() if owner == name} for name in names}
    for recipe in configs.recipes():
        for name in configs.load(recipe).methods:
            if own.get(recipe, name) == name:
                of[name].add(recipe)
    return {name: sorted(recipes) for name, recipes in of.items()}


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())

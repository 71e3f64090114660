"""What is known of every method: its paper, what it needs, its recipes, and what was measured with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fscil.core import config as configs
from fscil.data.registry import REGISTRY as DATASETS
from fscil.experiments.bench.collect import year_of
from fscil.experiments.bench.plan import own_recipe
from fscil.methods import REGISTRY, Method
from fscil.results.measured import measured, shipped


def describe_methods(results: Path | None = None) -> list[dict[str, Any]]:
    """One plain document per method, with the numbers of a folder of results, or those that come with the package."""
    numbers = measured(results) if results else shipped()
    users = {recipe: configs.load(recipe).methods for recipe in configs.recipes()}
    return [
        {
            "name": method.name,
            "title": method.title,
            "paper": method.paper,
            "year": year_of(method.paper) or None,
            "needs": sorted(method.needs),
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

"""The tables of measured numbers on the pages of the methods, docs/methods/NAME.md, between two comments."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from fscil.core.errors import InputError
from fscil.pages.kit.markdown import markdown_table
from fscil.pages.results.page import COLUMNS, shown
from fscil.paper.printed import datasets
from fscil.paper.runs import dataset_key
from fscil.results.grouping import Group, Shelf, collect

BEGIN, END = "<!-- numbers: made by `python -m fscil.pages.results` -->", "<!-- end of numbers -->"
_COLUMNS = {key: title for key, title in COLUMNS.items() if key != "gacc_exact"}  # pages compare with published values


def method_pages(results: Path, docs: Path) -> dict[Path, str]:
    """The pages under docs/methods that have a place for numbers, with the numbers in it."""
    shelves, pages = collect(results), {}
    for path in sorted((docs / "methods").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if BEGIN not in text:
            continue
        before, _, rest = text.partition(BEGIN)
        if END not in rest:
            raise InputError(f"{path} has no line '{END}' after its numbers begin; put it back.")
        table = _table(shelves, path.stem, os.path.relpath(results, path.parent))
        pages[path] = f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}"
    return pages


def _table(shelves: Sequence[Shelf], method: str, root: str) -> str:
    found = [(shelf, group) for shelf in shelves for group in shelf.groups if group.first.method == method]
    rows = [_row(shelf, group, root) for shelf, group in found]
    if not rows:
        return "Not measured yet."
    return markdown_table(("Data", "Network", "Base training of", "Draws", *_COLUMNS.values(), "Files"), rows)


def _row(shelf: Shelf, group: Group, root: str) -> tuple[str, ...]:
    plan = datasets().get(dataset_key(shelf.dataset))
    cells = [shown(group.spread(key)) for key in _COLUMNS]
    files = f"[results]({root}/{group.folder})"
    title, recipe = plan.title if plan else shelf.dataset, f"`{group.first.recipe}`"
    return (title, _network(group), recipe, str(len(group.results)), *cells, files)


def _network(group: Group) -> str:
    kind = str((group.first.config.get("backbone") or {}).get("kind") or "unknown")
    return "ViT" if kind == "vit" else re.sub(r"^resnet(\d+)$", r"ResNet-\1", kind)

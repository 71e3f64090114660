"""The tables of measured numbers on the pages of the methods, docs/methods/NAME.md, between two comments."""

import re
from collections.abc import Sequence
from pathlib import Path

from docs_maker.beside_pretraining import trained_before
from docs_maker.former import former_notes, mark
from docs_maker.results_page import COLUMNS
from docs_maker.seen import footnotes, marks
from fscil.core.errors import InputError
from fscil.core.pretraining import COLUMN
from fscil.metrics.names import label
from fscil.pages.kit.prose import plus_minus
from fscil.pages.kit.table import markdown, table
from fscil.paper.printed import datasets
from fscil.results.grouping import Group, MeasuredBenchmark, dataset_key, only

BEGIN, END = "<!-- numbers: made by `make docs` -->", "<!-- end of numbers -->"
_COLUMNS = [key for key in COLUMNS if key != "gacc_exact"]  # pages compare with published values


def method_pages(measured: Sequence[MeasuredBenchmark], root: str, docs: Path) -> dict[Path, str]:
    """The pages under docs/methods that have a place for numbers, with the numbers in it; `root` as seen from there."""
    pages, measured = {}, only(measured, rectified=False)
    for path in sorted((docs / "methods").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if BEGIN not in text:
            continue
        before, _, rest = text.partition(BEGIN)
        if END not in rest:
            raise InputError(f"{path} has no line '{END}' after its numbers begin; put it back.")
        pages[path] = f"{before}{BEGIN}\n\n{_numbers(measured, path.stem, root)}\n\n{END}{rest.partition(END)[2]}"
    return pages


def _numbers(measured: Sequence[MeasuredBenchmark], method: str, root: str) -> str:
    found = [(each, group) for each in measured for group in each.groups if group.first.method == method]
    if not found:
        return "Not measured yet."
    groups = [group for _, group in found]
    header = ["Data", "Network", "Base training of", "Draws", *map(label, _COLUMNS), "Files"]
    rows = [_row(each, group, root) for each, group in found]
    if trained_before(groups):
        header.insert(2, COLUMN)
        for row, group in zip(rows, groups, strict=True):
            row.insert(2, group.first.pretraining)
    numbers = markdown(table(method, header, rows))
    return "\n\n".join([numbers, *footnotes(groups), *former_notes(groups)])


def _row(measured: MeasuredBenchmark, group: Group, root: str) -> list[str]:
    plan = datasets().get(dataset_key(measured.dataset))
    title, recipe = plan.title if plan else measured.dataset, f"`{group.first.recipe}`{marks(group)}{mark(group)}"
    cells = [plus_minus(group.spread(key)) for key in _COLUMNS]
    return [title, _network(group), recipe, str(len(group.results)), *cells, f"[results]({root}/{group.folder})"]


def _network(group: Group) -> str:
    backbone = group.first.config.get("backbone") or {}
    kind = str(backbone.get("kind") or "unknown")
    if kind == "timm":
        return str(backbone.get("name"))
    return "ViT" if kind == "vit" else re.sub(r"^resnet(\d+)$", r"ResNet-\1", kind)

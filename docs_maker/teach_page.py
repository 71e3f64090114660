"""The computed parts of docs/teach.md: what `benchmarks/teach_heads.py` measured."""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fscil.pages.kit.table import markdown, table

FAMILIES = {
    "class means": ("class means",),
    "nearest neighbours": ("nearest neighbour", "5 nearest neighbours"),
    "ridge": ("ridge, 1", "ridge, 0.1"),
    "LDA": ("LDA, shrunken",),
    "logistic regression": ("logistic regression, C 1", "logistic regression, C 30"),
}
ORDER = (
    "grocery-photos", "cub-photos", "cifar-photos", "cifar-novel-cifar100", "characters-glyphs", "icons-glyphs",
    "icons-cifar100",
)  # fmt: skip


def blocks(results: Path) -> Mapping[str, Callable[[], str]]:
    stored = [results / "teach" / f"{name}.json" for name in ORDER]
    found = [json.loads(file.read_text(encoding="utf-8")) for file in stored if file.is_file()]
    return {
        "heads-accuracy": lambda: accuracy(found),
        "heads-behind": lambda: behind(found),
        "heads-unknown": lambda: unknown(found),
        "heads-rates": lambda: rates(found),
    }


def accuracy(found: list[Any]) -> str:
    head = ["", "classes", "images each", "**project**", *FAMILIES, "project less the best of the others"]
    rows = []
    for document in found:
        for cell in document["cells"]:
            best = {family: max(_mean(cell, name) for name in names) for family, names in FAMILIES.items()}
            gap, error = _gap(cell)
            numbers = [f"**{_mean(cell, 'project'):.1f}**", *[f"{best[family]:.1f}" for family in FAMILIES]]
            rows.append([*_what(document, cell), *numbers, f"{_signed(gap)} ± {error:.1f}"])
    return markdown(table("", head, rows))


def behind(found: list[Any]) -> str:
    """In words: where something else was better by more than twice the error."""
    cells = [(document, cell, *_gap(cell)) for document in found for cell in document["cells"]]
    worse = [each for each in cells if each[2] < -2 * each[3]]
    if not cells:
        return "Not measured yet."
    text = f"Of {len(cells)} rows the project leads or ties in {len(cells) - len(worse)}"
    if not worse:
        return f"{text}."
    where = "; ".join(
        f"{_what(document, cell)[0]}, {cell['classes']} classes, {cell['images']} {_plural(cell['images'])}: "
        f"{_best_other(cell)} by {-gap:.1f} ± {error:.1f}"
        for document, cell, gap, error in worse
    )
    return f"{text}. The best of the eight others, picked afterwards, was ahead by over two errors in: {where}."


def unknown(found: list[Any]) -> str:
    head = ["", "classes", "images each", "right, with 'unknown'", "known called unknown", "never taught, caught"]
    head += ["AUROC", "ECE", "seconds", "MB"]
    rows = []
    for document in found:
        for cell in document["cells"]:
            draws = cell["draws"]
            values = [f"{_over(draws, 'with_unknown'):.1f}"]
            values += [f"{_over(draws, 'false_alarms', '0.05'):.1f}"]
            if "auroc" in draws[0]:
                values += [f"{_over(draws, 'caught', '0.05'):.1f}"]
                values += [f"{_over(draws, key):.1f}" for key in ("auroc", "ece")]
            else:
                values += ["", "", ""]
            values += [f"{_over(draws, 'seconds'):.2f}", f"{cell['megabytes']:.0f}"]
            rows.append([*_what(document, cell), *values])
    return markdown(table("", head, rows))


def rates(found: list[Any]) -> str:
    """False alarms as asked for and as they came, over projects with five images a class or more."""
    asked = ("0.02", "0.05", "0.1", "0.2")
    head = ["asked for", *[f"{100 * float(rate):g} %" for rate in asked]]
    rows = []
    for document in found:
        draws = [draw for cell in document["cells"] if cell["images"] >= 5 for draw in cell["draws"]]
        values = [f"{_over(draws, 'false_alarms', rate):.1f}" for rate in asked]
        rows.append([f"{document['set']} (`{document['encoder']}`)", *values])
    return markdown(table("", head, rows))


def _plural(images: int) -> str:
    return "image" if images == 1 else "images"


def _what(document: Any, cell: Any) -> list[str]:
    return [f"{document['set']} (`{document['encoder']}`)", str(cell["classes"]), str(cell["images"])]


def _mean(cell: Any, name: str) -> float:
    return _over(cell["draws"], "accuracy", name)


def _over(draws: list[Any], *keys: str) -> float:
    """The mean of what lies below these keys."""
    return float(np.mean([functools.reduce(lambda found, key: found[key], keys, draw) for draw in draws]))


def _best_other(cell: Any) -> str:
    names = [name for family in FAMILIES.values() for name in family]
    return max(names, key=lambda name: _mean(cell, name))


def _gap(cell: Any) -> tuple[float, float]:
    """The project less the one that does best of all others here, in the same projects; mean and standard error."""
    other = _best_other(cell)
    gaps = [draw["accuracy"]["project"] - draw["accuracy"][other] for draw in cell["draws"]]
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1) / len(gaps) ** 0.5)


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")

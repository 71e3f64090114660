"""The computed parts of docs/teach.md: what `benchmarks/teach_heads.py` measured."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fscil.pages.kit.table import markdown, table
from fscil.results.significance import Difference, corrected, paired

FAMILIES = {
    "class means": ("class means",),
    "nearest neighbours": ("nearest neighbour", "5 nearest neighbours"),
    "ridge": ("ridge, 1", "ridge, 0.1"),
    "LDA": ("LDA, shrunken",),
    "logistic regression": ("logistic regression, C 1", "logistic regression, C 30"),
}
WAYS = tuple(name for names in FAMILIES.values() for name in names)
ORDER = (
    "grocery-photos", "cub-photos", "cifar-novel-photos", "cifar-photos", "cifar-novel-cifar100", "cifar-cifar100",
    "characters-glyphs", "icons-glyphs", "icons-cifar100",
)  # fmt: skip


def blocks(results: Path) -> Mapping[str, Callable[[], str]]:
    stored = [results / "teach" / f"{name}.json" for name in ORDER]
    found = [json.loads(file.read_text(encoding="utf-8")) for file in stored if file.is_file()]
    return {
        "heads-accuracy": lambda: accuracy(found),
        "heads-behind": lambda: behind(found),
        "heads-ways": lambda: ways(found),
        "heads-unknown": lambda: unknown(found),
        "heads-rates": lambda: rates(found),
    }


def accuracy(found: list[Any]) -> str:
    head = ["", "classes", "images each", "projects", "**project**", *FAMILIES, "clearly ahead of", "clearly behind"]
    rows = []
    for document, cell in _cells(found):
        best = {family: max(_mean(cell, name) for name in names) for family, names in FAMILIES.items()}
        numbers = [f"**{_mean(cell, 'project'):.1f}**", *[f"{best[family]:.1f}" for family in FAMILIES]]
        verdicts = [each.verdict for each in _leads(cell).values()]
        draws = str(len(cell["accuracy"]["project"]))
        counts = [str(verdicts.count(verdict)) for verdict in ("above", "below")]
        rows.append([*_what(document, cell), draws, *numbers, *counts])
    return markdown(table("", head, rows))


def behind(found: list[Any]) -> str:
    """In words: which way of classifying was better beyond noise, and where."""
    verdicts = [(document, cell, name, lead) for document, cell in _cells(found) for name, lead in _leads(cell).items()]
    if not verdicts:
        return "Not measured yet."
    ahead, worse = ([each for each in verdicts if each[3].verdict == kind] for kind in ("above", "below"))
    text = (
        f"Of {len(verdicts)} comparisons ({len(list(_cells(found)))} rows, {len(WAYS)} ways each) the project is "
        f"clearly ahead in {len(ahead)} and clearly behind in {len(worse)}"
    )
    if not worse:
        return f"{text}."
    where = "; ".join(
        f"{_what(document, cell)[0]}, {cell['classes']} classes, {cell['images']} {_plural(cell['images'])}: "
        f"{name} by {-lead.mean:.1f} ± {lead.error:.1f}"
        for document, cell, name, lead in worse
    )
    return f"{text}: {where}."


def ways(found: list[Any]) -> str:
    """The project less each way, over all rows."""
    shots = sorted({cell["images"] for _, cell in _cells(found)})
    head = ["project less", *[f"{count} {_plural(count)}" for count in shots], "rows clearly ahead", "clearly behind"]
    rows = []
    for name in WAYS:
        leads = [(cell["images"], _leads(cell)[name]) for _, cell in _cells(found)]
        means = [np.mean([lead.mean for images, lead in leads if images == count]) for count in shots]
        verdicts = [lead.verdict for _, lead in leads]
        counts = [str(verdicts.count(verdict)) for verdict in ("above", "below")]
        rows.append([name, *[_signed(float(mean)) for mean in means], *counts])
    return markdown(table("", head, rows))


def unknown(found: list[Any]) -> str:
    head = ["", "classes", "images each", "right, with 'unknown'", "known called unknown", "never taught, caught"]
    head += ["AUROC", "ECE", "seconds", "MB"]
    keys = ("with_unknown", "false_alarms 0.05", "caught 0.05", "auroc", "ece")
    return markdown(
        table(
            "",
            head,
            [
                [
                    *_what(document, cell),
                    *[f"{cell[key]:.1f}" for key in keys],
                    f"{cell['seconds']:.2f}",
                    f"{cell['megabytes']:.0f}",
                ]
                for document, cell in _cells(found)
            ],
        )
    )


def rates(found: list[Any]) -> str:
    """False alarms as asked for and as they came, over projects with five images a class or more."""
    asked = ("0.02", "0.05", "0.1", "0.2")
    rows = []
    for document in found:
        if not (cells := [cell for cell in document["cells"] if cell["images"] >= 5]):
            continue
        values = [f"{np.mean([cell[f'false_alarms {rate}'] for cell in cells]):.1f}" for rate in asked]
        rows.append([f"{document['set']} (`{document['encoder']}`)", *values])
    return markdown(table("", ["asked for", *[f"{100 * float(rate):g} %" for rate in asked]], rows))


def _cells(found: list[Any]) -> Iterator[tuple[Any, Any]]:
    return ((document, cell) for document in found for cell in document["cells"])


def _plural(images: int) -> str:
    return "image" if images == 1 else "images"


def _what(document: Any, cell: Any) -> list[str]:
    return [f"{document['set']} (`{document['encoder']}`)", str(cell["classes"]), str(cell["images"])]


def _mean(cell: Any, name: str) -> float:
    return float(np.mean(cell["accuracy"][name]))


def _leads(cell: Any) -> dict[str, Difference]:
    """The project less each way in the same projects; the ways of a row are one family."""
    ours = cell["accuracy"]["project"]
    gaps = {name: np.subtract(ours, cell["accuracy"][name]).tolist() for name in WAYS}
    return corrected({name: paired(values) for name, values in gaps.items()})


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")

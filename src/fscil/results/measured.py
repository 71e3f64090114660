"""What was measured with each method, in short: as a document, and as the one that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fscil.results.grouping import collect

SCORES = ("gacc_grid", "aacc", "novel")
SHIPPED = Path(__file__).with_name("measured.json")

Measured = dict[str, list[dict[str, Any]]]  # method -> one entry per data set and recipe


def measured(results: Path) -> Measured:
    found: Measured = {}
    for shelf in collect(results):
        for group in shelf.groups:
            scores = {key: group.spread(key) for key in SCORES}
            found.setdefault(group.first.method, []).append(
                {
                    "dataset": shelf.dataset,
                    "recipe": group.first.recipe,
                    "draws": len(group.results),
                    **{
                        key: None if value is None else {"mean": round(value.mean, 2), "std": _rounded(value.std)}
                        for key, value in scores.items()
                    },
                }
            )
    return found


def shipped() -> Measured:
    """The numbers of the project's own results, which an installed package has no folder of."""
    found: Measured = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)

"""What was measured with each method, in short: from a folder of results, and as it comes with the package."""

import json
from pathlib import Path
from typing import Any

from fscil.core.pretraining import NONE
from fscil.results.grouping import collect, only

SCORES = ("gacc_grid", "aacc", "novel")
SHIPPED = Path(__file__).with_name("measured.json")

Measured = dict[str, list[dict[str, Any]]]  # method -> one entry per data set and recipe


def measured(results: Path) -> Measured:
    found: Measured = {}
    for benchmark in only(collect(results), rectified=False):
        for group in benchmark.groups:
            scores: dict[str, Any] = {}
            for key in SCORES:
                value = group.spread(key)
                std = None if value is None or value.std is None else round(value.std, 2)
                scores[key] = None if value is None else {"mean": round(value.mean, 2), "std": std}
            entry: dict[str, Any] = {
                "dataset": benchmark.dataset,
                "recipe": group.first.recipe,
                "draws": len(group.results),
            }
            if group.first.pretraining != NONE:
                entry["pretraining"] = group.first.pretraining
            found.setdefault(group.first.method, []).append({**entry, **scores})
    return found


def shipped() -> Measured:
    """The numbers of the project's own results, which an installed package has no folder of."""
    found: Measured = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return found

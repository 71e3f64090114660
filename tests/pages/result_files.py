"""Result files as a run writes them, for the tests of tables, figures and commands."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import summary

PLAN = [60] + [5] * 8


def write_result(folder: Path, name: str, **changes: Any) -> Path:
    """One complete result.json; `changes` replace keys, None removes one."""
    seed = changes.get("shots_seed", 0)
    dice = random.Random(f"{changes.get('method', 'yourself')}{seed}")
    classes = changes.get("classes", PLAN)
    base, novel = changes.pop("level", (80.0, 35.0))
    rows = []
    for i in range(len(classes)):
        rows.append([base - i + dice.random()] + [novel - i + 5 * dice.random() for _ in range(i)])
    document: dict[str, Any] = {
        "schema": 1, "method": "yourself", "title": "YourSelf", "dataset": "cifar100", "seed": 0, "shots_seed": seed,
        "classes": classes, "test_counts": [100 * count for count in classes], "matrix": rows,
        "config": {"seed": 0, "options": {"yourself": {"novel_weight": 0.5}}},
    }  # fmt: skip
    document["metrics"] = summary(AccuracyMatrix.from_lists(rows, classes, document["test_counts"]))
    document.update(changes)
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))
    return path

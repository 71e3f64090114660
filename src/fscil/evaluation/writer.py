"""result.json: one method on one draw of shots, with everything needed to repeat and to compare it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fscil.core.config import Config, to_dict
from fscil.core.hardware import describe, peak_memory_mb
from fscil.core.matrix import AccuracyMatrix
from fscil.evaluation.protocol import Outcome
from fscil.methods import Method
from fscil.metrics import summary

SCHEMA = 1


def make_result(
    config: Config,
    method: Method,
    outcome: Outcome,
    *,
    dataset: str,
    shots_seed: int,
    device: torch.device,
    base: dict[str, Any],
) -> dict[str, Any]:
    """`base` is the info of the checkpoint: what base training took."""
    resolved = replace(config, methods=(method.name,), options={method.name: method.options()})
    return {
        "schema": SCHEMA,
        "method": method.name,
        "title": method.title,
        "recipe": config.recipe,
        "dataset": dataset,
        "seed": config.seed,
        "shots_seed": shots_seed,
        "config": to_dict(resolved),
        "commit": commit(),
        "hardware": describe(device),
        "seconds": {"base": base["seconds"], "sessions": round(outcome.seconds, 3)},
        "peak_memory_mb": max(base["peak_memory_mb"], peak_memory_mb(device)),
        **_measured(outcome.matrix),
        "variants": {label: _measured(matrix) for label, matrix in outcome.variants.items()},
    }


def _measured(matrix: AccuracyMatrix) -> dict[str, Any]:
    return {
        "classes": list(matrix.classes),
        "test_counts": list(matrix.test_counts),
        "matrix": matrix.to_lists(),
        "metrics": summary(matrix),
    }


def commit() -> str | None:
    """The revision of this package, where it runs from a git checkout; a trailing + says that files were changed."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None

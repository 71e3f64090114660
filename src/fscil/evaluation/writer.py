"""result.json: one method on one draw of shots, with everything needed to repeat and to compare it."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fscil.core.config import Config, to_dict
from fscil.core.hardware import describe, peak_memory_mb
from fscil.core.matrix import AccuracyMatrix
from fscil.core.naming import true_title
from fscil.core.pretraining import pretraining
from fscil.evaluation.protocol import Outcome
from fscil.methods import Method
from fscil.metrics import summary
from fscil.training.checkpoint import Checkpoint

SCHEMA = 2


def make_result(
    config: Config,
    method: Method,
    outcome: Outcome,
    *,
    dataset: str,
    shots_seed: int,
    device: torch.device,
    network: Checkpoint,
    weights: str,
    data: str,
) -> dict[str, Any]:
    """`weights` and `data` are the hashes of fscil.evaluation.identity."""
    resolved = replace(config, methods=(method.name,), options={method.name: method.options()})
    base, peak = network.info, max(peak_memory_mb(device), outcome.base_peak_mb)
    return {
        "schema": SCHEMA,
        "method": method.name,
        "title": true_title(method.name, method.marked_title(), method.options()),
        "recipe": config.recipe,
        "dataset": dataset,
        "seed": config.seed,
        "shots_seed": shots_seed,
        "network": {"weights_sha256": weights, "data_sha256": data, "trained_on": base["data"]},
        "pretraining": pretraining(base),
        "config": to_dict(resolved),
        "commit": commit(),
        "hardware": describe(device),
        "seconds": {"base": base["seconds"], "sessions": round(outcome.seconds, 3)},
        "peak_memory_mb": max(base["peak_memory_mb"], peak),
        "cost": {
            "network_parameters": sum(p.numel() for p in network.backbone.parameters()),
            "kept_numbers": count_numbers(method.state_dict()),
            "kept_images": outcome.kept_images,
            "peak_memory_mb": peak,  # while learning
        },
        **_measured(outcome.matrix),
        "variants": {label: _measured(matrix) for label, matrix in outcome.variants.items()},
        **({"answers": outcome.answers.document()} if outcome.answers else {}),
    }


def count_numbers(state: Any) -> int:
    """Numbers in what a method keeps: tensors, modules, and whatever holds them."""
    if isinstance(state, Tensor):
        return state.numel()
    if isinstance(state, nn.Module):
        return count_numbers(dict(state.state_dict()))
    if isinstance(state, Mapping):
        return sum(count_numbers(value) for value in state.values())
    if isinstance(state, list | tuple):
        return sum(count_numbers(value) for value in state)
    return 0


def _measured(matrix: AccuracyMatrix) -> dict[str, Any]:
    return {
        "classes": list(matrix.classes),
        "test_counts": list(matrix.test_counts),
        "matrix": matrix.to_lists(),
        "metrics": summary(matrix),
    }


@cache
def commit() -> str | None:
    """The revision of this package, where it runs from a git checkout; a trailing + says that files were changed."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=60,  # seconds: on a busy machine git takes some
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None

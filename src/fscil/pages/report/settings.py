"""The configs of all runs, every key once: what all share, and what differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fscil.results.result import Result


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested sections to dotted keys, values as JSON."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = json.dumps(value, ensure_ascii=False, default=str)
    return flat


def shared_and_different(results: Sequence[Result]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Settings equal in all runs, and for the others their value in each run, in order ('–' where absent)."""
    configs = [flatten(result.config) for result in results]
    keys = dict.fromkeys(key for config in configs for key in config)
    values = {key: [config.get(key, "–") for config in configs] for key in keys}
    shared = {key: row[0] for key, row in values.items() if len(set(row)) == 1}
    return shared, {key: row for key, row in values.items() if key not in shared}

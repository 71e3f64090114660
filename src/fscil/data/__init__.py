"""Images cut into sessions: `load_benchmark(DataConfig(...))` gives what every run starts from."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fscil.data.benchmark import Benchmark
    from fscil.data.dataset import Dataset, ImageSet
    from fscil.data.registry import datasets, load_benchmark, load_dataset
    from fscil.data.session import Session, View

__all__ = ["Benchmark", "Dataset", "ImageSet", "Session", "View", "datasets", "load_benchmark", "load_dataset"]

# Loaded on first use: they import torch, which `fscil.data.images` does without.
_MODULES = {
    "Benchmark": "benchmark",
    "Dataset": "dataset",
    "ImageSet": "dataset",
    "Session": "session",
    "View": "session",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fscil.data' has no attribute '{name}'")
    return getattr(importlib.import_module(f"fscil.data.{_MODULES.get(name, 'registry')}"), name)

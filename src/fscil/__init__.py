"""fscil: few-shot class-incremental learning.

import fscil

config = fscil.load_config("digits")
benchmark = fscil.load_benchmark(config.data)
network = fscil.train_base(benchmark.session(0), config, "runs/example")
outcome = fscil.run_method(fscil.make_method("yourself"), benchmark, fscil.FeatureCache(None, network.backbone))
print(fscil.summary(outcome.matrix)["gacc_grid"])
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Loaded on first use: torch takes seconds to import, and `fscil --help` or the metrics alone do not need it.
_PUBLIC = {
    "AccuracyMatrix": "fscil.core.matrix:AccuracyMatrix",
    "Benchmark": "fscil.data:Benchmark",
    "Config": "fscil.core.config:Config",
    "FeatureCache": "fscil.evaluation.features:FeatureCache",
    "IncrementalAccuracy": "fscil.metrics.streaming:IncrementalAccuracy",
    "FSCILClassifier": "fscil.teach:FSCILClassifier",
    "InputError": "fscil.core.errors:InputError",
    "Learner": "fscil.teach:Learner",
    "Method": "fscil.methods:Method",
    "Run": "fscil.experiments.run:Run",
    "SharedNetwork": "fscil.sharing.network:SharedNetwork",
    "load_benchmark": "fscil.data:load_benchmark",
    "load_classifier": "fscil.training.checkpoint:load_classifier",
    "load_config": "fscil.core.config:load",
    "load_dataset": "fscil.data:load_dataset",
    "make_method": "fscil.methods:make",
    "progress": "fscil.core.progress:progress",
    "read_matrix": "fscil.matrix_files:read_matrix",
    "run_method": "fscil.evaluation.protocol:run_method",
    "summary": "fscil.metrics:summary",
    "train_base": "fscil.training.loop:train_base",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'fscil' has no attribute '{name}'")
    module, _, member = _PUBLIC[name].partition(":")
    return getattr(importlib.import_module(module), member)


def __dir__() -> list[str]:
    return sorted(__all__)

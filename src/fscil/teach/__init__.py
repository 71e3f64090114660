"""Teach: your own classes from a handful of images each, on your own machine.

from fscil.teach import Learner

learner = Learner.create("my-project")
learner.learn("cat", ["cat1.jpg", "cat2.jpg"])
print(learner.predict(["new.jpg"])[0].label)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fscil.teach.learner import Learner
from fscil.teach.records import (
    Change,
    ClassInfo,
    Diagnosis,
    ExportReport,
    Finding,
    Guess,
    ImageInfo,
    Learned,
    MapPoint,
    Neighbour,
    Prediction,
    Rival,
    Skipped,
)

if TYPE_CHECKING:
    from fscil.teach.onnx import import_onnx
    from fscil.teach.sklearn import FSCILClassifier

__all__ = [
    "Change",
    "ClassInfo",
    "Diagnosis",
    "ExportReport",
    "FSCILClassifier",
    "Finding",
    "Guess",
    "ImageInfo",
    "Learned",
    "Learner",
    "MapPoint",
    "Neighbour",
    "Prediction",
    "Rival",
    "Skipped",
    "import_onnx",
]

# Loaded on first use: they import torch, onnx and scikit-learn.
_LATER = {"FSCILClassifier": "fscil.teach.sklearn", "import_onnx": "fscil.teach.onnx"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'fscil.teach' has no attribute '{name}'")

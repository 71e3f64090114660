"""Teach: your own classes from a handful of images each, on your own machine.

from fscil.teach import Learner

learner = Learner.create("my-project")
learner.learn("cat", ["cat1.jpg", "cat2.jpg"])
print(learner.predict(["new.jpg"])[0].label)

project (on disk) -> learning (what is known) -> encoders (the networks) -> onnx -> learner, estimator: each room
imports only from those before it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fscil.teach.learner import Learner, import_onnx
from fscil.teach.project.records import (
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
    from fscil.teach.estimator import FSCILClassifier


def __getattr__(name: str) -> Any:
    if name == "FSCILClassifier":  # imports torch and scikit-learn, so on first use
        return importlib.import_module("fscil.teach.estimator").FSCILClassifier
    raise AttributeError(f"module 'fscil.teach' has no attribute '{name}'")

"""What a project does with its vectors, against what people would use instead on the same vectors.

    python benchmarks/teach_heads.py DATA CACHE [SET ...]

DATA holds `cub200/{train,test}/CLASS/*`, `grocery/{train,val,test}/CLASS/*` and `cifar100.npz`; vectors are kept in
CACHE. What is measured is written to results/teach/SET.json, from which docs/teach.md is made (`make docs`).

Choices were made on `icons` 0-11 and on forty base classes of CIFAR-100 (training images only); the sets here were
looked at once, afterwards.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from teach_data import Features, array_images, character_images, features, folder_images, icon_images

from fscil.core.storage import write_text
from fscil.teach.encoders.loading import find
from fscil.teach.learning.calibration import level_for
from fscil.teach.learning.head import Head
from fscil.teach.learning.knowledge import ClassMemory, Knowledge, Space

RATES = (0.02, 0.05, 0.1, 0.2)  # false alarms that are asked for
STRANGERS = 20  # classes never taught


def class_means(x: np.ndarray, y: np.ndarray, asked: np.ndarray) -> np.ndarray:
    means = np.stack([x[y == label].mean(0) for label in np.unique(y)])
    return np.asarray((asked @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T).argmax(1))


def _fitted(model: Any) -> Callable[..., np.ndarray]:
    return lambda x, y, asked: np.asarray(model.fit(x, y).predict(asked))


def _lda(x: np.ndarray, y: np.ndarray, asked: np.ndarray) -> np.ndarray:
    if np.bincount(y).min() < 3:  # it has no covariance of one image, and a useless one of two
        return class_means(x, y, asked)
    return _fitted(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))(x, y, asked)


OTHERS: dict[str, Callable[..., np.ndarray]] = {
    "class means": class_means,
    "nearest neighbour": _fitted(KNeighborsClassifier(1)),
    "5 nearest neighbours": _fitted(KNeighborsClassifier(5, weights="distance")),
    "ridge, 1": _fitted(RidgeClassifier(1.0)),
    "ridge, 0.1": _fitted(RidgeClassifier(0.1)),
    "LDA, shrunken": _lda,
    "logistic regression, C 1": _fitted(LogisticRegression(max_iter=200)),
    "logistic regression, C 30": _fitted(LogisticRegression(C=30, max_iter=200)),
}


@dataclass(frozen=True)
class Project:
    x: np.ndarray
    y: np.ndarray
    asked: np.ndarray
    right: np.ndarray
    strange: np.ndarray

    @classmethod
    def draw(cls, found: Features, each: Set, classes: int, shots: int, draw: int) -> Project:
        rng = np.random.default_rng([classes, shots, draw])
        order = rng.permutation(each.known)
        taught, rest = order[:classes], order[classes:]
        strange = (list(each.strangers) or rest.tolist())[:STRANGERS]
        few = [found.train[c][rng.permutation(len(found.train[c]))[:shots]] for c in taught]
        return cls(
            np.concatenate(few),
            np.repeat(np.arange(classes), [len(rows) for rows in few]),
            np.concatenate([found.test[c] for c in taught]),
            np.repeat(np.arange(classes), [len(found.test[c]) for c in taught]),
            np.concatenate([found.test[c] for c in strange] or [np.empty((0, found.train[0].shape[1]))]),
        )

    def knowledge(self) -> Knowledge:
        space = Space(((self.x.shape[1], 1.0),), 0.7)
        memories = []
        for label in range(int(self.y.max()) + 1):
            vectors = self.x[self.y == label].astype(np.float32)
            ids = [f"{label:03} {row:03}" for row in range(len(vectors))]
            memories.append(ClassMemory.make(label, str(label), ids, vectors, space))
        return Knowledge(tuple(memories), space)


def measure(project: Project) -> dict[str, Any]:
    knowledge = project.knowledge()
    started = time.process_time()
    head = Head(knowledge)
    chances = head.probabilities(project.asked[:1])
    seconds = time.process_time() - started
    chances, (scores, likeness) = head.probabilities(project.asked), head.judge(project.asked)
    unknown = chances.shape[1] - 1
    out: dict[str, Any] = {
        "accuracy": {"project": _percent(scores.argmax(1) == project.right)},
        "with_unknown": _percent(chances.argmax(1) == project.right),
        "seconds": seconds,
        "settings": head.settings,
        "false_alarms": {},
        "caught": {},
    }
    for name, answers in OTHERS.items():
        out["accuracy"][name] = _percent(answers(project.x, project.y, project.asked) == project.right)
    levels = {rate: level_for(rate, head.rehearsal.likeness, head.rehearsal.strange_likeness) for rate in RATES}
    out["false_alarms"] = {rate: _percent(likeness < level) for rate, level in levels.items()}
    if len(project.strange):
        other, strange = head.probabilities(project.strange), head.judge(project.strange)[1]
        out["caught"] = {rate: _percent(strange < level) for rate, level in levels.items()}
        truth = np.r_[np.ones(len(likeness)), np.zeros(len(strange))]
        out["auroc"] = 100 * float(roc_auc_score(truth, np.r_[likeness, strange]))
        # As calibration is made for: four pictures in five show a class that was taught.
        some = np.random.default_rng(0).permutation(len(other))[: len(chances) // 4]
        sure = np.r_[chances.max(1), other[some].max(1)]
        good = np.r_[chances.argmax(1) == project.right, other[some].argmax(1) == unknown]
        out["ece"] = 100 * ece(sure, good)
    return out


def ece(sure: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps = [abs(float((sure - right)[place == each].sum())) for each in range(bins)]
    return sum(gaps) / len(sure)


def megabytes(project: Project) -> float:
    knowledge = project.knowledge()
    tracemalloc.start()
    Head(knowledge).probabilities(project.asked[:1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def _percent(right: np.ndarray) -> float:
    return 100 * float(np.mean(right))


def main(data: Path, cache: Path, names: list[str]) -> None:
    for name in names or list(SETS):
        each = SETS[name]
        found = features(cache, name, find(each.encoder, None), each.images(data))
        cells = []
        for classes in each.sizes:
            for shots in each.shots:
                draws = 3 if classes > 20 else 5
                rows = [measure(Project.draw(found, each, classes, shots, draw)) for draw in range(draws)]
                peak = megabytes(Project.draw(found, each, classes, shots, 0))
                cells.append({"classes": classes, "images": shots, "megabytes": round(peak, 1), "draws": rows})
                means = {key: np.mean([row["accuracy"][key] for row in rows]).round(1) for key in rows[0]["accuracy"]}
                print(name, classes, shots, means, flush=True)
                document = {"set": each.title, "encoder": each.encoder, "cells": rounded(cells)}
                write_text(Path("results/teach") / f"{name}.json", json.dumps(document, indent=1) + "\n")


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return round(float(value), 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])

"""What a project does with its vectors, against what people would use instead on the same vectors.

    python benchmarks/teach_heads.py DATA CACHE [SET ...]

DATA holds `cub200/{train,test}/CLASS/*`, `grocery/{train,val,test}/CLASS/*`, `cifar100.npz` and `tiny100.npz`. Vectors
are kept in CACHE, and what others answered, as it does not change with ours. What is measured of the sets that are
reported is written to results/teach/SET.json, from which docs/teach.md is made (`make docs`); see `teach_sets.py`.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from teach_data import Features, features
from teach_sets import DRAWS, REPORTED, SETS, Set

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


def others(project: Project) -> dict[str, float]:
    """Right answers, percent."""
    return {
        name: _percent(answers(project.x, project.y, project.asked) == project.right)
        for name, answers in OTHERS.items()
    }


def measure(project: Project) -> tuple[float, dict[str, float]]:
    """Right answers, percent; and all else, with `false_alarms 0.05` at that rate."""
    knowledge = project.knowledge()
    started = time.process_time()
    head = Head(knowledge)
    chances = head.probabilities(project.asked[:1])
    seconds = time.process_time() - started
    chances, (scores, likeness) = head.probabilities(project.asked), head.judge(project.asked)
    other, strange = head.probabilities(project.strange), head.judge(project.strange)[1]
    truth = np.r_[np.ones(len(likeness)), np.zeros(len(strange))]
    # As calibration is made for: four pictures in five show a class that was taught.
    some = np.random.default_rng(0).permutation(len(other))[: len(chances) // 4]
    sure = np.r_[chances.max(1), other[some].max(1)]
    unknown = chances.shape[1] - 1
    good = np.r_[chances.argmax(1) == project.right, other[some].argmax(1) == unknown]
    found = {
        "with_unknown": _percent(chances.argmax(1) == project.right),
        "auroc": 100 * float(roc_auc_score(truth, np.r_[likeness, strange])),
        "ece": 100 * ece(sure, good),
        "seconds": seconds,
    }
    for rate in RATES:
        level = level_for(rate, head.rehearsal.likeness, head.rehearsal.strange_likeness)
        found |= {f"false_alarms {rate}": _percent(likeness < level), f"caught {rate}": _percent(strange < level)}
    return _percent(scores.argmax(1) == project.right), found


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


def cell(projects: list[Project], kept: Path) -> dict[str, Any]:
    """Accuracy project by project, so that it can be compared in pairs; the mean of everything else."""
    if not kept.exists():
        write_text(kept, json.dumps([others(project) for project in projects]))
    ours, found = zip(*map(measure, projects), strict=True)
    accuracy = {"project": ours, **{name: [each[name] for each in json.loads(kept.read_text())] for name in OTHERS}}
    return {
        "accuracy": {name: np.round(values, 2).tolist() for name, values in accuracy.items()},
        **{key: round(float(np.mean([each[key] for each in found])), 4) for key in found[0]},
        "megabytes": round(megabytes(projects[0]), 1),
    }


def main(data: Path, cache: Path, names: list[str]) -> None:
    for name in names or list(REPORTED):
        each, cells = SETS[name], []
        found = features(cache, each.stored, find(each.encoder, None), each.images(data))
        for classes in each.sizes:
            for shots in each.shots:
                projects = [Project.draw(found, each, classes, shots, draw) for draw in range(DRAWS[classes])]
                kept = cache / f"{name} {classes} {shots}.json"
                cells.append({"classes": classes, "images": shots, **cell(projects, kept)})
                print(name, json.dumps(cells[-1]), flush=True)
                if name in REPORTED:
                    write_text(Path("results/teach") / f"{name}.json", as_text(each, cells))


def as_text(each: Set, cells: list[dict[str, Any]]) -> str:
    lines = ",\n".join(json.dumps(one) for one in cells)
    return f'{{"set": {json.dumps(each.title)}, "encoder": {json.dumps(each.encoder)}, "cells": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])

"""Runs a method over the sessions of a benchmark and fills the accuracy matrix.

The only place where learning and test images meet. A method is handed one session at a time, with what it
declared to need and nothing more; it is asked for scores of test features, never for or with their labels.
Accuracy is counted correct over counted total, in the joint label space of all classes seen so far.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fscil.core.matrix import AccuracyMatrix
from fscil.data.benchmark import Benchmark
from fscil.data.session import Session, View
from fscil.evaluation.features import FeatureCache
from fscil.methods import Method
from fscil.training.checkpoint import Checkpoint

Scorer = Callable[[View], Tensor]


@dataclass(frozen=True)
class Outcome:
    """What a run of one method on one draw of shots leaves behind."""

    matrix: AccuracyMatrix
    seconds: float  # learning and scoring all sessions, without the features
    variants: dict[str, AccuracyMatrix] = field(default_factory=dict)  # parts of the method alone, by label


class Examiner:
    """Holds the test features; tells accuracies, never labels."""

    def __init__(self, benchmark: Benchmark, cache: FeatureCache, method: Method, device: torch.device) -> None:
        self._exams = [benchmark.exam(index) for index in range(benchmark.novel_sessions + 1)]
        blocks = method.blocks(cache.backbone.depth)
        self._views = []
        for exam in self._exams:
            view = cache.get(exam.images, blocks)
            images = exam.images if "images" in method.needs else None
            self._views.append(dataclasses.replace(view, images=images).to(device))
        self.test_counts = tuple(len(exam.labels) for exam in self._exams)
        self._classes = benchmark.classes

    def row(self, after: int, scorer: Scorer) -> list[float]:
        """Accuracies in percent on sessions 0..after."""
        seen = sum(self._classes[: after + 1])
        row = []
        for exam, view in zip(self._exams[: after + 1], self._views, strict=False):
            scores = scorer(view)
            if scores.shape != (len(view), seen) or not torch.isfinite(scores).all():
                raise ValueError(
                    f"After session {after} a method must give finite scores of shape ({len(view)}, {seen}); "
                    f"got {tuple(scores.shape)}."
                )
            correct = int((scores.argmax(1).cpu() == exam.labels).sum())
            row.append(100 * correct / len(exam.labels))
        return row


def run_method(
    method: Method,
    benchmark: Benchmark,
    cache: FeatureCache,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    network: Checkpoint | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Learn every session in order; after each, test on all classes seen so far.

    `network` is where the features come from; a method may also use its head and what its training learned besides.
    """
    device = device or torch.device("cpu")
    examiner = Examiner(benchmark, cache, method, device)
    count = benchmark.novel_sessions + 1
    sessions = [prepare(benchmark.session(i), method, cache, device, network) for i in range(count)]
    method.start(seed=seed, depth=cache.backbone.depth, device=device)
    rows: list[list[float]] = []
    variants: dict[str, list[list[float]]] = {}
    seconds = 0.0
    for index, session in enumerate(sessions):
        started = time.monotonic()
        (method.fit_base if index == 0 else method.fit_novel)(session)
        rows.append(examiner.row(index, method.scores))
        seconds += time.monotonic() - started
        for label, scorer in method.variants().items():
            variants.setdefault(label, []).append(examiner.row(index, scorer))
        if progress:
            progress(index + 1, len(sessions))

    def matrix(lists: Sequence[Sequence[float]]) -> AccuracyMatrix:
        return AccuracyMatrix.from_lists(lists, benchmark.classes, examiner.test_counts)

    return Outcome(matrix(rows), seconds, {label: matrix(lists) for label, lists in variants.items()})


def prepare(
    session: Session,
    method: Method,
    cache: FeatureCache,
    device: torch.device,
    network: Checkpoint | None = None,
) -> Session:
    """A session as a method gets it: features attached, pixels and network only where the method needs them.

    The network, its head and what else it learned are copies: whatever a method does to them, features and the next
    method see the network that was trained.
    """
    assert session.images is not None
    view = cache.get(session.images, method.blocks(cache.backbone.depth)).to(device)
    base = session.index == 0 and network is not None
    weights, extras = (network.class_weights, network.extras) if base and network else (None, {})
    return dataclasses.replace(
        session,
        view=view,
        labels=session.labels.to(device),
        images=session.images.to(device) if "images" in method.needs else None,
        head=weights.to(device, copy=True) if weights is not None else None,
        extras={name: value.to(device, copy=True) for name, value in extras.items()},
        network=copy.deepcopy(network.classifier).to(device) if network and "backbone" in method.needs else None,
    )

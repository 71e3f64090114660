"""Calibration after the last session: of the prototype baseline, of single FR branches and of their ensemble.

Before a temperature is applied, every score is a softmax of scale * cosine with the recipe's scale. The one temperature
per predictor is fitted on left-out shots: the sessions are learned again without some of the shots of every new class,
and those are then predicted. They are the only images at hand that neither the network nor the FR modules have seen:
the network was trained on every image of the base session, so on those it is surer, and more often right, than it will
be on a new image. The test images take no part in it. What the base session's images and the test images would have
given is stored beside it for reference, and used for nothing.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data import Benchmark
from fscil.data.session import Session, View
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import prepare
from fscil.methods import Method, Prototypes, YourSelf
from fscil.metrics.calibration import (
    Floats,
    brier_score,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
    tempered,
)
from fscil.training.checkpoint import Checkpoint

FOLDS = 5  # at most: with five shots or fewer, one shot of every class is left out at a time
_PER_BASE_CLASS = 30  # base training images for the reference temperature: enough for one number

Predict = Callable[[View], Tensor]  # log-probabilities (n, classes)
Labelled = tuple[Mapping[str, Floats], Tensor]  # log-probabilities of every predictor, and the labels


@dataclass(frozen=True)
class Setup:
    """Where the sessions come from and how they are learned."""

    benchmark: Benchmark  # of one draw
    cache: FeatureCache
    make: Callable[[], YourSelf]
    seed: int
    device: torch.device
    network: Checkpoint | None

    def prepared(self) -> list[Session]:
        method, last = self.make(), self.benchmark.novel_sessions
        return [
            prepare(self.benchmark.session(index), method, self.cache, self.device, self.network)
            for index in range(last + 1)
        ]

    def learned(self, sessions: Sequence[Session]) -> dict[str, Predict]:
        """Baseline, branches and ensemble after all sessions, by key."""
        ours = self.make()
        for method in (baseline := Prototypes(), ours):
            self._teach(method, sessions)
        predictors = {"prototypes": _scaled(baseline.scores, ours.scale)}
        predictors |= {label: _scaled(scorer) for label, scorer in ours.variants().items()}
        return {**predictors, "ensemble": _scaled(ours.scores)}

    def _teach(self, method: Method, sessions: Sequence[Session]) -> None:
        method.start(seed=self.seed, depth=self.cache.backbone.depth, device=self.device)
        for session in sessions:
            (method.fit_novel if session.index else method.fit_base)(session)


def measure_confidence(setup: Setup) -> dict[str, Any]:
    """Per predictor: temperatures, and the quality of its probabilities before and after, on the test images."""
    if setup.benchmark.shot < 2:
        raise InputError(
            "A temperature is fitted on left-out shots, which takes two shots per class; raise data.shot, or leave "
            "calibration out with --only ablation,layers,choices,sensitivity,diagnosis."
        )
    sessions = setup.prepared()
    left_out = _left_out(setup, sessions)
    predictors = setup.learned(sessions)
    test = _predict(predictors, *_exam(setup))
    seen = _predict(predictors, *_some_of(sessions[0]))
    novel = (test[1] >= setup.benchmark.base).numpy()
    return {key: _judged(key, left_out, test, seen, novel) for key in predictors}


def without_fold(session: Session, fold: int, folds: int) -> tuple[Session, Session]:
    """A session without every `folds`-th shot of each class, and those shots."""
    left = torch.zeros(len(session), dtype=torch.bool)
    for label in session.classes:
        left[torch.nonzero(session.labels.cpu() == label).flatten()[fold::folds]] = True
    return _part(session, ~left), _part(session, left)


def _left_out(setup: Setup, sessions: Sequence[Session]) -> Labelled:
    folds = min(FOLDS, setup.benchmark.shot)
    found = []
    for fold in range(folds):
        halves = [without_fold(session, fold, folds) for session in sessions[1:]]
        predictors = setup.learned([sessions[0], *(kept for kept, _ in halves)])
        found += [_predict(predictors, _view(left), left.labels) for _, left in halves]
    keys = found[0][0]
    together = {key: np.concatenate([scores[key] for scores, _ in found]) for key in keys}
    return together, torch.cat([labels for _, labels in found])


def _judged(key: str, left_out: Labelled, test: Labelled, seen: Labelled, novel: np.ndarray) -> dict[str, Any]:
    z, labels = test[0][key], test[1].numpy()
    used = fit_temperature(left_out[0][key], left_out[1].numpy())
    groups = {"all": np.ones_like(novel), "base": ~novel, "novel": novel}
    moments = {"before": tempered(z, 1.0), "after": tempered(z, used)}
    return {
        "temperatures": {
            "left_out": used,
            "base_training": fit_temperature(seen[0][key], seen[1].numpy()),
            "test": fit_temperature(z, labels),
        },
        **{
            moment: {group: _quality(p[mask], labels[mask]) for group, mask in groups.items()}
            for moment, p in moments.items()
        },
        "bins": {
            moment: {
                group: [[b.confidence, b.accuracy, b.share] for b in reliability(p[mask], labels[mask])]
                for group, mask in groups.items()
            }
            for moment, p in moments.items()
        },
    }


def _quality(p: Floats, labels: np.ndarray) -> dict[str, float]:
    return {
        "ece_mass": calibration_error(p, labels, equal="mass"),
        "ece_width": calibration_error(p, labels, equal="width"),
        "nll": negative_log_likelihood(p, labels),
        "brier": brier_score(p, labels),
        "accuracy": 100 * float((p.argmax(axis=1) == labels).mean()),
        "confidence": 100 * float(p.max(axis=1).mean()),
    }


@torch.no_grad()
def _predict(predictors: Mapping[str, Predict], view: View, labels: Tensor) -> Labelled:
    scores = {key: predict(view).numpy() for key, predict in predictors.items()}
    return scores, labels.cpu()


def _scaled(scorer: Predict, scale: float = 1.0) -> Predict:
    """Log-probabilities of a method's scores, which are logits, or the mean softmax of an ensemble's branches."""

    def predict(view: View) -> Tensor:
        scores = scorer(view).cpu().double()  # not every accelerator has doubles
        # The average of distributions is one already: another softmax would flatten it to nothing.
        if (scores >= 0).all() and torch.allclose(scores.sum(-1), scores.new_ones(()), atol=1e-4):
            return scores.clamp(min=torch.finfo(torch.float32).tiny).log()
        return F.log_softmax(scale * scores, dim=-1)

    return predict


def _exam(setup: Setup) -> tuple[View, Tensor]:
    """All test images, features attached."""
    blocks = setup.make().blocks(setup.cache.backbone.depth)
    exams = [setup.benchmark.exam(index) for index in range(setup.benchmark.novel_sessions + 1)]
    view = View.joined([setup.cache.get(exam.images, blocks) for exam in exams]).to(setup.device)
    return view, torch.cat([exam.labels for exam in exams])


def _some_of(session: Session) -> tuple[View, Tensor]:
    labels = session.labels.cpu()
    chosen = [torch.nonzero(labels == label).flatten()[:_PER_BASE_CLASS] for label in session.classes]
    rows = torch.cat(chosen)
    return _view(session)[rows.to(session.labels.device)], labels[rows]


def _part(session: Session, mask: Tensor) -> Session:
    mask = mask.to(session.labels.device)
    return dataclasses.replace(session, labels=session.labels[mask], view=_view(session)[mask])


def _view(session: Session) -> View:
    assert session.view is not None
    return session.view

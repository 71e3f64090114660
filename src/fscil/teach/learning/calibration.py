"""From similarities to probabilities, with 'unknown' as one of the answers.

    p(class c) = exp((s_c - level) / temperature) / Z      p(unknown) = 1 / Z

So the answer is 'unknown' exactly when no class is more similar than `level`. Both numbers come from the project's own
images, each left out of its class in turn: scored against all classes it should find its own; scored with its own
class taken away it is an example of something never taught, and should be unknown. Temperature and level are those
under which these answers are most probable. With few images the estimate is drawn towards the encoder's prior, and one
image is enough for an answer.

Pictures that come later differ more from the images of their class than those do from each other: other light, another
hand, another typeface. So the similarity of a left-out image to its own class is lowered by a share of its lead over
the best other class (`DISCOUNT`). This and `KNOWN` were chosen on pseudo-projects (see docs/teach.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fscil.teach.learning.knowledge import Knowledge

SAMPLE = 256  # images that are left out: a cost that does not grow with the project
KNOWN = 0.8  # share of pictures that are assumed to show a class that was taught
DISCOUNT = 0.25
PRIOR_WEIGHT = 4.0  # as many images as a prior that was measured counts for
PRIOR_SPREAD = (0.5, 0.1)  # how far log temperature and level may be off


@dataclass(frozen=True)
class Calibration:
    temperature: float
    level: float  # similarity below which nothing fits

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """(n, classes + 1) from similarities (n, classes); the last column is 'unknown'."""
        logits = (scores.astype(np.float64) - self.level) / self.temperature
        logits = np.concatenate([logits, np.zeros((len(logits), 1))], 1)
        logits -= logits.max(1, keepdims=True)
        weights = np.exp(logits)
        return weights / weights.sum(1, keepdims=True)


def fit(knowledge: Knowledge, prior: Mapping[str, float]) -> Calibration:
    """`prior`: temperature, level, and how much they are to be trusted: 1 where they were measured."""
    from scipy.optimize import minimize  # slow to import

    left = knowledge.left_out(SAMPLE)
    testable = np.isfinite(left.own)
    known, found = left.scores[testable].astype(np.float64), left.labels[testable]
    strange = left.others.astype(np.float64) if left.scores.shape[1] > 1 else np.empty((0, 0))
    if not len(known):
        return _without_known(strange, prior)
    rows = np.arange(len(known))
    if len(strange):
        known[rows, found] -= DISCOUNT * max(0.0, known[rows, found].mean() - strange.max(1).mean())
    total = len(known) + len(strange)
    share_known, share_strange = KNOWN * total / len(known), (1 - KNOWN) * total / max(1, len(strange))
    start = np.array([np.log(prior["temperature"]), prior["level"]])

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        pull = (x - start) / PRIOR_SPREAD
        value = prior["trust"] * PRIOR_WEIGHT * 0.5 * (pull**2).sum()
        slope = prior["trust"] * PRIOR_WEIGHT * pull / PRIOR_SPREAD
        for scores, share, right in ((known, share_known, found), (strange, share_strange, None)):
            if len(scores):
                part, part_slope = _cost(scores, right, float(np.exp(x[0])), float(x[1]))
                value, slope = value + share * part, slope + share * part_slope
        return float(value), slope

    bounds = [(np.log(0.005), np.log(1.0)), (-1.0, 1.0)]
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(float(np.exp(best[0])), float(best[1]))


def _without_known(strange: np.ndarray, prior: Mapping[str, float]) -> Calibration:
    """No class has two images, so nothing tells how similar images of one class are: the prior does, if measured.
    Else the level is set between what strangers reach and the most there is.
    """
    if prior["trust"] >= 1 or not len(strange):
        return Calibration(prior["temperature"], prior["level"])
    middle = (float(np.median(strange.max(1))) + 1) / 2
    return Calibration(max(0.01, (1 - middle) / 4), middle)


def _cost(scores: np.ndarray, right: np.ndarray | None, temperature: float, level: float) -> tuple[float, np.ndarray]:
    """Negative log likelihood and its slope in (log temperature, level); `right` None: 'unknown' is right."""
    logits = (scores - level) / temperature
    top = np.maximum(logits.max(1, keepdims=True), 0)
    weights = np.exp(logits - top)
    total = weights.sum(1, keepdims=True) + np.exp(-top)
    chances = weights / total
    value = (np.log(total) + top).sum()
    by_temperature = -(chances * np.where(chances > 0, logits, 0)).sum()
    by_level = -chances.sum() / temperature
    if right is not None:
        wanted = logits[np.arange(len(right)), right]
        value -= wanted.sum()
        by_temperature += wanted.sum()
        by_level += len(right) / temperature
    return float(value), np.array([by_temperature, by_level])

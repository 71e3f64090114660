"""From scores to probabilities, with 'unknown' as one of the answers.

    p(class c) ~ exp(s_c / temperature)      p(unknown) ~ max over c of p(class c) * exp((level - likeness) / softness)

So the answer is 'unknown' exactly where the likeness does not reach `level`. The project's own images tell all three:
left out in turn they are pictures of known classes; with their whole class left out they are examples of what was
never taught. The level is the likeness that a given share of the known ones does not reach (the rate of false alarms).
Temperature and softness make the right answers most probable. Where images are few, what is usual counts for some.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FALSE_ALARMS = 0.05  # share of the pictures of known classes that are called unknown, where the user says nothing
KNOWN = 0.8  # share of pictures that are assumed to show a class that was taught
TEMPERATURE, SOFTNESS = 0.12, 0.08  # what is usual, as measured on the projects of docs/teach.md
USUAL_WEIGHT = 4.0  # images that it counts for
USUAL_SPREAD = 0.5  # how far a logarithm may be off
STRANGERS = 1.0  # images that the examples of what was never taught count for, all together, in the level
TINY = 1e-12
CLOSE = 1e-5  # of logarithms of temperature and softness


@dataclass(frozen=True)
class Calibration:
    temperature: float
    softness: float
    level: float  # likeness below which nothing fits

    def probabilities(self, scores: np.ndarray, likeness: np.ndarray) -> np.ndarray:
        """(n, classes + 1) from scores (n, classes) and likeness (n,); the last column is 'unknown'."""
        logits = scores / self.temperature
        nothing = logits.max(1) + (self.level - likeness) / self.softness
        logits = np.concatenate([logits, nothing[:, None]], 1)
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(weights / weights.sum(1, keepdims=True))


@dataclass(frozen=True)
class Rehearsal:
    """The project's own images, as it judges them when they are left out."""

    scores: np.ndarray  # (n, classes) of images that are left out one by one
    likeness: np.ndarray  # (n,)
    labels: np.ndarray  # (n,)
    strange_scores: np.ndarray  # (m, classes) of images whose whole class is left out; -inf there
    strange_likeness: np.ndarray  # (m,)


def fit(rehearsal: Rehearsal, false_alarms: float, level: float | None) -> Calibration:
    """`level`: as set by the user."""
    if level is None:
        level = level_for(false_alarms, rehearsal.likeness, rehearsal.strange_likeness)
    temperature = _most_probable(lambda x: _class_cost(rehearsal, float(np.exp(x))), _usual_temperature(rehearsal))
    crowds = _crowd(rehearsal.scores / temperature), _crowd(rehearsal.strange_scores / temperature)
    softness = _most_probable(lambda x: _unknown_cost(rehearsal, crowds, float(np.exp(x)), level), SOFTNESS)
    return Calibration(temperature, softness, level)


def _usual_temperature(rehearsal: Rehearsal) -> float:
    """Scores of classes that an image does not show spread about as much as the temperature that is right."""
    others = np.where(np.isfinite(rehearsal.strange_scores), rehearsal.strange_scores, np.nan)
    if len(others) < 2 or others.shape[1] < 4:
        return TEMPERATURE
    return float(max(np.nanstd(others, axis=1).mean(), 0.01))


def level_for(false_alarms: float, known: np.ndarray, strange: np.ndarray) -> float:
    """The likeness that this share does not reach; between two images it rises evenly."""
    values = np.concatenate([known, strange])
    if not len(values):
        return 0.0
    weights = np.concatenate([np.ones(len(known)), np.full(len(strange), STRANGERS / max(1, len(strange)))])
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(false_alarms * weights.sum(), below, values[order]))


def _most_probable(cost: Callable[[float], float], usual: float) -> float:
    def total(x: float) -> float:
        return cost(x) + USUAL_WEIGHT / 2 * ((x - np.log(usual)) / USUAL_SPREAD) ** 2

    return float(np.exp(_lowest(total, float(np.log(usual / 30)), float(np.log(usual * 30)))))


def _lowest(cost: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is lowest, to `CLOSE`, by the golden section. (scipy.optimize takes a tenth of
    a second to import, longer than all else that a project needs to learn.)
    """
    golden = (5**0.5 - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    on_left, on_right = cost(left), cost(right)
    while high - low > CLOSE:
        if on_left < on_right:
            high, right, on_right = right, left, on_left
            left = high - golden * (high - low)
            on_left = cost(left)
        else:
            low, left, on_left = left, right, on_right
            right = low + golden * (high - low)
            on_right = cost(right)
    return (low + high) / 2


def _class_cost(rehearsal: Rehearsal, temperature: float) -> float:
    logits = rehearsal.scores / temperature
    top = logits.max(1, initial=-np.inf)
    total = np.log(np.exp(logits - top[:, None]).sum(1)) + top
    return float((total - logits[np.arange(len(logits)), rehearsal.labels]).sum())


def _log_logistic(values: np.ndarray) -> np.ndarray:
    return np.asarray(-np.logaddexp(0, -values))


def _crowd(logits: np.ndarray) -> np.ndarray:
    """(n,) logarithm of what all classes weigh together, as a multiple of the first of them."""
    return np.asarray(np.log(np.exp(logits - logits.max(1, initial=-np.inf, keepdims=True)).sum(1)))


def _unknown_cost(rehearsal: Rehearsal, crowds: tuple[np.ndarray, np.ndarray], softness: float, level: float) -> float:
    """Of 'known' and 'unknown' alone; examples of both weigh as they are assumed to come."""
    known, strange = len(rehearsal.likeness), len(rehearsal.strange_likeness)
    cost = 0.0
    if known:
        chances = _log_logistic(crowds[0] - (level - rehearsal.likeness) / softness)
        cost -= KNOWN * (known + strange) / known * float(np.maximum(chances, np.log(TINY)).sum())
    if strange:
        chances = _log_logistic((level - rehearsal.strange_likeness) / softness - crowds[1])
        cost -= (1 - KNOWN) * (known + strange) / strange * float(np.maximum(chances, np.log(TINY)).sum())
    return cost

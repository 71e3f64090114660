"""How far a classifier's confidence can be believed: calibration error, likelihood, Brier score.

The confidence of a prediction is the probability of the class it names. It is calibrated if, of the images predicted
with confidence c, the share c is right.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fscil.core.errors import InputError

BINS = 15  # as in Guo et al., On Calibration of Modern Neural Networks, ICML 2017
Equal = Literal["mass", "width"]
Floats = NDArray[np.float64]

_SHARPEST, _FLATTEST = 0.02, 50.0  # temperatures: beyond them nothing changes that a reader could see


@dataclass(frozen=True)
class Bin:
    """Images predicted with about the same confidence."""

    confidence: float  # mean, 0..1
    accuracy: float  # 0..1
    share: float  # of all images


def reliability(probabilities: ArrayLike, labels: ArrayLike, bins: int = BINS, equal: Equal = "mass") -> list[Bin]:
    """The bins that hold images, least confident first.

    `equal="mass"`: bins of equally many images, so that no bin is a matter of luck; equal confidences stay together.
    `equal="width"`: bins of equally long ranges of confidence, the usual definition.
    """
    p, y = _checked(probabilities, labels)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    cuts = np.linspace(0, 1, bins + 1)
    edges = np.quantile(confidence, cuts) if equal == "mass" else cuts
    place = np.searchsorted(edges[1:-1], confidence)
    held = [place == index for index in np.unique(place)]
    return [Bin(float(confidence[here].mean()), float(right[here].mean()), float(here.mean())) for here in held]


def calibration_error(probabilities: ArrayLike, labels: ArrayLike, bins: int = BINS, equal: Equal = "mass") -> float:
    """ECE in percent: the distance of confidence and accuracy, averaged over the bins by their images."""
    return 100 * sum(b.share * abs(b.confidence - b.accuracy) for b in reliability(probabilities, labels, bins, equal))


def negative_log_likelihood(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """NLL in nats per image: 0 is certain and right, log(classes) is ignorance."""
    p, y = _checked(probabilities, labels)
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], np.finfo(np.float64).tiny)).mean())


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Squared distance to the one-hot truth, summed over classes, mean over images: 0 is best, 2 is worst."""
    p, y = _checked(probabilities, labels)
    return float((np.square(p).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1).mean())


def tempered(log_probabilities: ArrayLike, temperature: float) -> Floats:
    """Probabilities at another temperature: p^(1/T), made to sum to one. The predicted class stays the same.

    It takes the probabilities of any classifier, also of an ensemble; where they are a softmax of logits this is the
    usual temperature scaling of those logits.
    """
    z = np.asarray(log_probabilities, dtype=np.float64) / temperature
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def fit_temperature(log_probabilities: ArrayLike, labels: ArrayLike) -> float:
    """The temperature with the least NLL on these images, which must not be those it is judged on."""
    z, y = np.asarray(log_probabilities, dtype=np.float64), np.asarray(labels)
    if z.ndim != 2 or len(z) != len(y) or not len(y):
        raise InputError(
            f"A temperature needs log-probabilities (n, classes) and n labels; got {z.shape} and {y.shape}."
        )
    truth = z[np.arange(len(y)), y].mean()

    def slope(temperature: float) -> float:
        """Of the NLL in 1/T, in which it is convex: negative while the temperature is too high."""
        return float((tempered(z, temperature) * z).sum(axis=1).mean() - truth)

    low, high = _SHARPEST, _FLATTEST
    if slope(low) <= 0:  # everything right: the sharper the better
        return low
    if slope(high) >= 0:
        return high
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if slope(middle) < 0 else (middle, high)
    return (low * high) ** 0.5


def _checked(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if p.ndim != 2 or y.shape != (len(p),) or not len(y):
        raise InputError(f"Calibration needs probabilities (n, classes) and n labels; got {p.shape} and {y.shape}.")
    if not np.isfinite(p).all() or p.min() < 0 or not np.allclose(p.sum(axis=1), 1, atol=1e-4):
        raise InputError(
            "Calibration needs probabilities that sum to one for every image; take a softmax of scores first."
        )
    if y.min() < 0 or y.max() >= p.shape[1]:
        raise InputError(f"Labels {y.min()} to {y.max()} do not fit probabilities of {p.shape[1]} classes.")
    return p, y.astype(np.int64)

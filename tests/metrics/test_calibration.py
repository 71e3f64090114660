"""Calibration metrics against torchmetrics, scikit-learn and scipy, and where those have nothing, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss
from torchmetrics.classification import MulticlassCalibrationError

from fscil.core.errors import InputError
from fscil.metrics.calibration import (
    brier_score,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
    tempered,
)

SEEDS = range(4)


def made_up(seed: int, images: int = 600, classes: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels that follow them loosely."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (images, classes))
    labels = np.array([rng.choice(classes, p=softmax(0.6 * row)) for row in logits])
    return logits, labels


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_width_is_torchmetrics(seed: int) -> None:
    logits, labels = made_up(seed)
    p = softmax(logits, axis=1)
    theirs = MulticlassCalibrationError(num_classes=7, n_bins=15, norm="l1")(torch.tensor(p), torch.tensor(labels))
    assert calibration_error(p, labels, equal="width") == pytest.approx(100 * float(theirs), abs=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_mass_is_the_quantile_curve_of_scikit_learn(seed: int) -> None:
    logits, labels = made_up(seed, images=600)  # a multiple of 15: all bins weigh the same
    p = softmax(logits, axis=1)
    right = p.argmax(1) == labels
    accuracy, confidence = calibration_curve(right, p.max(1), n_bins=15, strategy="quantile")
    assert calibration_error(p, labels) == pytest.approx(100 * np.abs(accuracy - confidence).mean(), abs=1e-9)
    bins = reliability(p, labels)
    assert [b.confidence for b in bins] == pytest.approx(confidence)
    assert [b.accuracy for b in bins] == pytest.approx(accuracy)
    assert {round(b.share, 12) for b in bins} == {round(1 / 15, 12)}


@pytest.mark.parametrize("seed", SEEDS)
def test_likelihood_and_brier_are_those_of_scikit_learn(seed: int) -> None:
    logits, labels = made_up(seed)
    p = softmax(logits, axis=1)
    classes = np.arange(7)
    assert negative_log_likelihood(p, labels) == pytest.approx(log_loss(labels, p, labels=classes))
    assert brier_score(p, labels) == pytest.approx(brier_score_loss(labels, p, labels=classes, scale_by_half=False))


def test_by_hand() -> None:
    p = [[0.9, 0.1], [0.6, 0.4]]
    assert calibration_error(p, [0, 1], equal="width") == pytest.approx(50 * 0.1 + 50 * 0.6)
    assert brier_score(p, [0, 1]) == pytest.approx((0.01 + 0.01 + 0.36 + 0.36) / 2)
    assert negative_log_likelihood([[0.0, 1.0]], [0]) > 500  # certain and wrong, but finite


def test_equal_confidences_are_never_torn_apart() -> None:
    p = np.tile([0.7, 0.3], (100, 1))
    labels = np.r_[np.zeros(70, int), np.ones(30, int)]  # sorted by class, as test sets are
    assert len(reliability(p, labels)) == 1
    assert calibration_error(p, labels) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_temperature_is_scipys(seed: int) -> None:
    logits, labels = made_up(seed)
    z = log_softmax(logits, axis=1)

    def loss(temperature: float) -> float:
        return log_loss(labels, softmax(logits / temperature, axis=1), labels=np.arange(7))

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-8}).x
    assert fit_temperature(z, labels) == pytest.approx(best, rel=1e-5)


def test_a_known_temperature_is_found_again() -> None:
    logits, labels = made_up(9, images=40000)  # drawn from softmax(0.6 * logits)
    assert fit_temperature(log_softmax(logits, axis=1), labels) == pytest.approx(1 / 0.6, rel=0.03)
    p = tempered(log_softmax(logits, axis=1), 1 / 0.6)
    assert calibration_error(p, labels) < 1.0
    assert calibration_error(p, labels) < calibration_error(softmax(logits, axis=1), labels)


def test_a_temperature_changes_confidence_and_no_prediction() -> None:
    logits, _ = made_up(3)
    z = log_softmax(logits, axis=1)
    assert tempered(z, 1.0) == pytest.approx(softmax(logits, axis=1))
    for temperature in (0.3, 4.0):
        p = tempered(z, temperature)
        assert p == pytest.approx(softmax(logits / temperature, axis=1))
        assert (p.argmax(1) == logits.argmax(1)).all()


def test_all_right_or_all_wrong_ends_at_a_finite_temperature() -> None:
    z = log_softmax(np.eye(5) * 3, axis=1)
    assert 0 < fit_temperature(z, np.arange(5)) < 0.1
    assert 10 < fit_temperature(z, (np.arange(5) + 1) % 5) < 1000


@pytest.mark.parametrize(
    ("p", "labels", "words"),
    [
        ([[0.5, 0.4]], [0], "sum to one"),
        ([[3.0, -2.0]], [0], "sum to one"),
        ([[np.nan, 1.0]], [0], "sum to one"),
        ([[0.5, 0.5]], [2], "do not fit"),
        ([[0.5, 0.5]], [0, 1], "n labels"),
        (np.zeros((0, 2)), [], "n labels"),
    ],
)
def test_what_is_no_probability_is_refused(p: object, labels: object, words: str) -> None:
    for metric in (calibration_error, negative_log_likelihood, brier_score):
        with pytest.raises(InputError, match=words):
            metric(p, labels)


def test_a_temperature_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="needs log-probabilities"):
        fit_temperature(np.zeros((0, 3)), [])

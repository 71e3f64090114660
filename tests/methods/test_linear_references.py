"""Ridge regression, LDA and random projections: sums over sessions against scikit-learn on all images at once."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.linear_model
import torch
from feature_worlds import SESSIONS, make_world
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss

from fscil.data import Session
from fscil.methods import LDA, Method, RanPAC, Ridge
from fscil.methods.lda import SHRINKAGES
from fscil.methods.ridge import RIDGES, RidgeClassifier

Arrays = tuple[np.ndarray, np.ndarray]


def learned(method: Method, sessions: list[Session]) -> Method:
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    for session in sessions:
        (method.fit_novel if session.index else method.fit_base)(session)
    return method


def arrays(sessions: list[Session]) -> Arrays:
    """All of them at once."""
    views = [session.view for session in sessions]
    x = torch.cat([view.final for view in views if view is not None]).double()
    return x.numpy(), torch.cat([session.labels for session in sessions]).numpy()


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def evenly(y: np.ndarray) -> np.ndarray:
    """Weights by which every class counts as one image."""
    return (1 / np.bincount(y))[y]


def by_scikit(x: np.ndarray, y: np.ndarray, ridge: float, intercept: bool, balance: bool) -> sklearn.linear_model.Ridge:
    model = sklearn.linear_model.Ridge(alpha=ridge, fit_intercept=intercept, solver="svd")
    return model.fit(x, np.eye(y.max() + 1)[y], sample_weight=evenly(y) if balance else None)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("features", ["unit", "as they are"])
def test_ridge_is_scikits_on_all_images(ridge: float, balance: bool, features: str) -> None:
    sessions, exams = make_world(shot=7)
    method = learned(Ridge(ridge=ridge, balance=balance, unit=features == "unit"), sessions)
    change = unit if features == "unit" else np.asarray
    x, y = arrays(sessions)
    theirs = by_scikit(change(x), y, ridge, True, balance)
    for view, _ in exams:
        wanted = theirs.predict(change(view.final.double().numpy()))
        np.testing.assert_allclose(method.scores(view).numpy(), wanted, atol=1e-8)


def test_projections_are_scikits_ridge_on_a_random_layer() -> None:
    sessions, exams = make_world()
    method = learned(RanPAC(width=50, ridge=2.0), sessions)
    assert isinstance(method, RanPAC)
    drawn = method.projection_.numpy()
    assert drawn.shape == (16, 50)
    assert abs(drawn.mean()) < 0.1  # standard normal
    assert abs(drawn.std() - 1) < 0.1
    x, y = arrays(sessions)
    theirs = by_scikit(np.maximum(x @ drawn, 0), y, 2.0, False, False)
    for view, _ in exams:
        wanted = theirs.predict(np.maximum(view.final.double().numpy() @ drawn, 0))
        np.testing.assert_allclose(method.scores(view).numpy(), wanted, atol=1e-8)


def test_projections_against_a_direct_solve() -> None:
    """Least squares of the images with a row sqrt(ridge) e_i below for every dimension."""
    sessions, _ = make_world()
    method = learned(RanPAC(width=40, ridge=0.5), sessions)
    assert isinstance(method, RanPAC)
    x, y = arrays(sessions)
    hidden = np.maximum(x @ method.projection_.numpy(), 0)
    stacked = np.concatenate([hidden, np.sqrt(0.5) * np.eye(40)])
    targets = np.concatenate([np.eye(y.max() + 1)[y], np.zeros((40, y.max() + 1))])
    wanted = np.linalg.lstsq(stacked, targets, rcond=None)[0]
    np.testing.assert_allclose(method.weights_.numpy(), wanted, atol=1e-9)


@pytest.mark.parametrize("spread", [0.35, 2.0])
@pytest.mark.parametrize("kind", ["ridge", "images alike", "projections"])
def test_the_ridge_is_the_best_on_held_out_base_images(kind: str, spread: float) -> None:
    made: RidgeClassifier = RanPAC(width=50) if kind == "projections" else Ridge(balance=kind == "ridge")
    sessions, _ = make_world(spread=spread)
    method = learned(made, sessions)
    assert isinstance(method, RidgeClassifier)
    assert sessions[0].view is not None
    parts = sessions[0].hold_out(0.2, 0)
    (x, y), (held, wanted) = (arrays([part]) for part in parts)
    assert len(y) == 4 * len(wanted)
    change = (lambda a: np.maximum(a @ made.projection_.numpy(), 0)) if isinstance(made, RanPAC) else unit
    errors = []
    for ridge in RIDGES:
        model = by_scikit(change(x), y, ridge, made.intercept, made.balance)
        squared = ((model.predict(change(held)) - np.eye(8)[wanted]) ** 2).sum(1)
        errors.append((squared * (evenly(wanted) if made.balance else 1)).sum())
    # Ridges so small that they change nothing are as good as each other but for rounding.
    assert errors[RIDGES.index(method.ridge_)] <= min(errors) * (1 + 1e-6)
    assert method.ridge_ == RIDGES[int(np.argmin(errors))] or method.ridge_ < 1e-3
    assert learned(made, sessions[:1]).ridge_ == method.ridge_  # type: ignore[attr-defined]


@pytest.mark.parametrize("shrinkage", [1e-3, 0.3, 1.0])
def test_lda_is_scikits_on_all_images(shrinkage: float) -> None:
    sessions, exams = make_world(shot=7)
    method = learned(LDA(shrinkage=shrinkage), sessions)
    x, y = arrays(sessions)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(x, y)
    for view, _ in exams:
        wanted = theirs.decision_function(view.final.double().numpy()) - np.log(theirs.priors_)
        np.testing.assert_allclose(method.scores(view).numpy(), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spread", [0.35, 2.0])
def test_the_shrinkage_is_the_best_on_held_out_base_images(spread: float) -> None:
    sessions, _ = make_world(spread=spread)
    method = learned(LDA(), sessions)
    assert isinstance(method, LDA)
    (x, y), (held, wanted) = (arrays([part]) for part in sessions[0].hold_out(0.2, 0))
    losses = []
    for shrinkage in SHRINKAGES:
        theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(x, y)
        losses.append(log_loss(wanted, theirs.predict_proba(held)))
    assert method.shrinkage_ == SHRINKAGES[int(np.argmin(losses))]
    assert 0 < SHRINKAGES.index(method.shrinkage_) < len(SHRINKAGES) - 1 or spread < 1


@pytest.mark.parametrize("method", [Ridge(ridge=1.0), LDA(shrinkage=0.1), RanPAC(width=30, ridge=1.0)], ids=str)
def test_in_whatever_sessions_the_classes_come(method: Method) -> None:
    sessions, exams = make_world()
    whole = learned(method, sessions).scores(exams[0][0])
    x, y = arrays(sessions[1:])
    view = type(exams[0][0])(torch.from_numpy(x).float())
    together = Session(1, range(8, 8 + 2 * SESSIONS), None, torch.from_numpy(y), view)
    assert torch.allclose(learned(method, [sessions[0], together]).scores(exams[0][0]), whole, atol=1e-9)


def test_without_any_spread_the_nearest_mean_wins() -> None:
    sessions, exams = make_world(spread=0.0)
    method = learned(LDA(), sessions)
    for view, labels in exams:
        assert torch.equal(method.scores(view).argmax(1), labels)

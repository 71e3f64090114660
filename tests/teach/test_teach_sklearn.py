"""The scikit-learn face: what scikit-learn expects of a classifier, and of partial_fit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted
from teach_samples import NOVEL, characters, noise

from fscil.core.errors import InputError
from fscil.teach import FSCILClassifier, Learner

NAMES = np.array(list(NOVEL[:6]))
X = np.stack([image for name in NAMES for image in characters(name, 6)])
Y = np.repeat(NAMES, 6)


def test_it_is_a_classifier() -> None:
    classifier = FSCILClassifier()
    assert is_classifier(classifier)
    assert classifier.get_params() == {"encoder": "glyphs", "unknown": None}
    assert clone(classifier.set_params(unknown="?")).unknown == "?"
    with pytest.raises(NotFittedError):
        classifier.predict(X)
    assert classifier.fit(X, Y) is classifier
    check_is_fitted(classifier)
    assert classifier.classes_.tolist() == sorted(NAMES)
    chances = classifier.predict_proba(X)
    assert chances.shape == (36, 6)
    assert np.allclose(chances.sum(1), 1)
    assert (classifier.classes_[chances.argmax(1)] == classifier.predict(X)).all()
    assert classifier.score(X, Y) > 0.9
    assert ((classifier.unknown_proba(X) >= 0) & (classifier.unknown_proba(X) <= 1)).all()


def test_partial_fit_in_any_pieces_is_fit() -> None:
    whole = FSCILClassifier().fit(X, Y)
    order = np.random.default_rng(0).permutation(len(X))
    pieces = FSCILClassifier()
    for rows in np.array_split(order, 5):
        pieces.partial_fit(X[rows], Y[rows])
    queries = np.stack(characters(NOVEL[2], 4, seed=1) + characters(NOVEL[7], 4))
    assert np.allclose(pieces.predict_proba(queries), whole.predict_proba(queries), atol=1e-6)
    assert np.allclose(pieces.unknown_proba(queries), whole.unknown_proba(queries), atol=1e-6)
    pieces.fit(X[:12], Y[:12])  # starts over
    assert len(pieces.classes_) == 2


def test_it_answers_as_a_project_does(learner: Learner) -> None:
    for name in NAMES:
        learner.learn(name, characters(name, 6))
    queries = [image for name in NAMES for image in characters(name, 2, seed=3, test=True)]
    classifier = FSCILClassifier(unknown="unknown").fit(X, Y)
    assert [p.label for p in learner.predict(queries)] == classifier.predict(np.stack(queries)).tolist()


def test_tools_of_scikit_learn() -> None:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    assert cross_val_score(FSCILClassifier(), X, Y, cv=folds).mean() > 0.7
    numbers = np.searchsorted(sorted(NAMES), Y)
    pipeline = make_pipeline(FSCILClassifier(unknown=-1)).fit(X, numbers)
    assert pipeline.predict(X).dtype.kind == "i"
    assert (pipeline.predict(np.stack(noise(4))) == -1).all()


def test_pickles_leave_the_network_out() -> None:
    classifier = FSCILClassifier().fit(X, Y)
    content = pickle.dumps(classifier)
    assert len(content) < 500_000
    assert (pickle.loads(content).predict(X) == classifier.predict(X)).all()


def test_bad_arrays() -> None:
    for images in (X[0], X.astype(float), X[..., :1]):
        with pytest.raises(InputError, match="uint8"):
            FSCILClassifier().fit(images, Y)
    with pytest.raises(InputError, match="one label each"):
        FSCILClassifier().fit(X, Y[:-1])

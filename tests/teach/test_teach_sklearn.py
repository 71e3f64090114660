"""The scikit-learn face: what scikit-learn expects of a classifier, and of partial_fit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
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
    assert classifier.get_params() == {"encoder": "glyphs", "unknown": None, "value_range": None}
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


def grey(images: np.ndarray) -> np.ndarray:
    return images[..., 0]


def test_every_kind_of_picture_is_the_same_picture(tmp_path: Path) -> None:
    """Grey characters as arrays of all kinds, as paths and as pictures of PIL: the same features."""
    classifier = FSCILClassifier().fit(X, Y)
    some = np.repeat(X[:4, ..., :1], 3, axis=3)
    expected = classifier.transform(some)
    paths = [tmp_path / f"{at}.png" for at in range(len(some))]
    for path, image in zip(paths, some, strict=True):
        Image.fromarray(image).save(path)
    kinds: dict[str, Any] = {
        "grey": grey(some), "one channel": some[..., :1], "floats": some / 255, "32 bits": (some / 255).astype("f4"),
        "integers": some.astype(int), "lists": some.tolist(), "rows": grey(some).reshape(4, -1),
        "rows of floats": grey(some).reshape(4, -1) / 255, "arrays": list(some), "grey arrays": list(grey(some)),
        "paths": paths, "texts": list(map(str, paths)), "array of texts": np.array(list(map(str, paths))),
        "bytes": [path.read_bytes() for path in paths], "PIL": [Image.fromarray(image) for image in some],
        "see-through": np.concatenate([some, np.full((*some.shape[:3], 1), 255, np.uint8)], axis=3),
    }  # fmt: skip
    for kind, images in kinds.items():
        assert np.array_equal(FSCILClassifier().fit(images, Y[:4]).transform(images), expected), kind
    other = FSCILClassifier(value_range=(-1, 1)).fit(some / 127.5 - 1, Y[:4])
    assert np.array_equal(other.transform(some / 127.5 - 1), expected)
    sizes = [X[0], np.asarray(Image.fromarray(X[1]).resize((50, 40)))]
    assert classifier.predict(sizes).shape == (2,)


def test_rows_of_digits_as_scikit_learn_gives_them() -> None:
    """Rows of 64 numbers from 0 to 16 are the pictures of eight by eight that they were made from."""
    digits = load_digits()
    rows, pictures, names = digits.data[:200], digits.images[:200], digits.target[:200]
    classifier = FSCILClassifier(value_range=(0, 16)).fit(rows, names)
    assert classifier.n_features_in_ == 64
    assert np.allclose(
        classifier.predict_proba(rows), FSCILClassifier().fit(pictures / 16, names).predict_proba(pictures / 16)
    )
    assert classifier.score(digits.data[200:400], digits.target[200:400]) > 0.5
    with pytest.raises(ValueError, match=r"from 0 to 16.*value_range=\(0, 16\)"):
        FSCILClassifier().fit(rows, names)
    with pytest.raises(ValueError, match="X has 49 features, but FSCILClassifier is expecting 64"):
        classifier.predict(rows[:2, :49])


def test_its_features_feed_another_estimator() -> None:
    pipeline = make_pipeline(FSCILClassifier(), LogisticRegression(max_iter=1000)).fit(X, Y)
    assert pipeline.score(X, Y) == 1
    classifier = FSCILClassifier().fit(X, Y)
    features = classifier.transform(X)
    assert features.dtype == np.float32
    assert features.shape == (len(X), len(classifier.get_feature_names_out()))
    with pytest.raises(NotFittedError):
        FSCILClassifier().transform(X)


SHARED: dict[str, Any] = {}


class RowsOfAnyNumbers(FSCILClassifier):
    """scikit-learn's checks give rows of random numbers: filled up to a square and squeezed into what a picture holds.
    One network serves all clones.
    """

    def _squares(self, rows: np.ndarray) -> np.ndarray:
        side = int(np.ceil(rows.shape[1] ** 0.5))
        full = np.concatenate([rows.astype(float), np.zeros((len(rows), side**2 - rows.shape[1]))], axis=1)
        return (0.5 + np.arctan(full) / np.pi).reshape(-1, side, side, 1)

    def _network(self) -> Any:
        if not SHARED:
            SHARED["glyphs"] = super()._network()
        return SHARED["glyphs"]


EXPECTED = {
    "check_methods_subset_invariance": "networks compute in 32 bits, which round otherwise in batches of another size: "
    "confidences differ in the seventh digit",
    "check_array_api_input": "numpy only",
}


def expected_failures(_: Any) -> dict[str, str]:
    return EXPECTED


@pytest.mark.slow
@parametrize_with_checks([RowsOfAnyNumbers()], expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


BAD = {
    "one picture": (X[0], "single picture in colour"),
    "one path": ("a.png", "single picture; give a list"),
    "two channels": (X[..., :2], "1, 3 or 4"),
    "five dimensions": (X[None], "1, 3 or 4"),
    "too bright": (X.astype(float), r"from 0 to 255, and 0 to 1 .* value_range=\(0, 255\)"),
    "negative": (X.astype(int) - 9, "value_range"),
    "not a number": (np.full(X.shape, np.nan), "NaN"),
    "no square": (X.reshape(36, -1)[:, :7], "Rows of 7 numbers"),
    "no file": (["absent.png"] * 36, "no such file"),
    "texts": (np.full(X.shape, "a"), "hold numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_images_get_a_sentence(case: str) -> None:
    images, sentence = BAD[case]
    with pytest.raises(InputError, match=sentence) as caught:
        FSCILClassifier().fit(images, Y)
    assert isinstance(caught.value, ValueError)


def test_bad_labels_get_a_sentence() -> None:
    with pytest.raises(InputError, match="one label each"):
        FSCILClassifier().fit(X, Y[:-1])
    with pytest.raises(InputError, match="a label each"):
        FSCILClassifier().fit(X, None)
    with pytest.raises(InputError, match="smaller number first"):
        FSCILClassifier(value_range=(1, 0)).fit(X, Y)
    classifier = FSCILClassifier().fit(X, Y)
    with pytest.raises(InputError, match="labels of one kind"):
        classifier.partial_fit(X[:2], [1, 2])
    assert classifier.classes_.tolist() == sorted(NAMES)  # as before

"""The same learner as a scikit-learn classifier, in memory and without a folder.

classifier = FSCILClassifier().fit(images, labels)        # paths, pictures of PIL, arrays in colour or grey
classifier.partial_fit(more_images, more_labels)          # new classes or more images of old ones
classifier.predict_proba(images)
classifier.transform(images)                              # features, for another estimator
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d, validate_data

from fscil.teach import arrays
from fscil.teach.arrays import ImageInputError
from fscil.teach.encoders.loading import find
from fscil.teach.learning.encoder import Encoder
from fscil.teach.learning.head import Head
from fscil.teach.learning.knowledge import ClassMemory, Knowledge
from fscil.teach.project.pictures import Picture, read_all
from fscil.teach.project.records import Skipped


class FSCILClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """`unknown`: the label to give where no class fits; None: always the nearest class. `value_range`: what black and
    white are in arrays of numbers; None: 0 and 255 in whole numbers, 0 and 1 in others.

    Images are paths, bytes of files, pictures of PIL, arrays of any sizes in a list, or one array: (n, h, w) in grey,
    (n, h, w, 1, 3 or 4), or rows of square pictures in grey (n, side * side).
    `predict_proba` gives the probability of each class of `classes_` if the image shows one of them (rows sum to 1);
    `unknown_proba` that it shows none.

    Examples:
        >>> from sklearn.datasets import load_digits
        >>> digits, labels = load_digits(return_X_y=True)
        >>> images = (digits.reshape(-1, 8, 8, 1).repeat(3, axis=-1) * 15).astype("uint8")
        >>> first = [row for name in (0, 1, 2) for row in (labels == name).nonzero()[0][:5]]  # five of each
        >>> classifier = FSCILClassifier().fit(images[first], labels[first])
        >>> more = (labels == 3).nonzero()[0][:5]
        >>> classifier.partial_fit(images[more], labels[more]).classes_.tolist()  # a class more, the others stay
        [0, 1, 2, 3]
        >>> classifier.predict_proba(images[:2]).shape
        (2, 4)
    """

    classes_: np.ndarray
    knowledge_: Knowledge
    head_: Head

    def __init__(
        self, encoder: str = "glyphs", unknown: Any = None, value_range: tuple[float, float] | None = None
    ) -> None:
        self.encoder = encoder
        self.unknown = unknown
        self.value_range = value_range

    def fit(self, X: Any, y: Any) -> FSCILClassifier:  # noqa: N803  (scikit-learn's names)
        """Start over with these images."""
        for name in ("classes_", "knowledge_", "head_"):
            self.__dict__.pop(name, None)
        self.__dict__.pop("n_features_in_", None)
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> FSCILClassifier:  # noqa: N803
        """Learn more. `classes` is not needed: new ones may come at any time. The order of calls does not matter."""
        if y is None:
            raise ImageInputError("This estimator requires y to be passed, but the target y is None: a label each.")
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        assert_all_finite(labels, input_name="y")
        pictures = self._pictures(X, reset=not self.__sklearn_is_fitted__())
        if len(labels) != len(pictures):
            raise ImageInputError(f"There are {len(pictures)} images but {len(labels)} labels; give one label each.")
        vectors = self._embed(pictures)
        known: dict[Any, ClassMemory] = {}
        if self.__sklearn_is_fitted__():
            if len({isinstance(label, str) for label in (*labels.tolist(), *self.classes_.tolist())}) > 1:
                raise ImageInputError("All labels must be texts, or all numbers; give labels of one kind.")
            known = dict(zip(self.classes_.tolist(), self.knowledge_.memories, strict=True))
        for label in np.unique(labels).tolist():
            rows = np.flatnonzero(labels == label)
            old = known.get(label)
            # Sorted by content, so that sums do not depend on the order of the calls.
            both = vectors[rows] if old is None else np.concatenate([old.vectors, vectors[rows]])
            ids = [vector.tobytes().hex() for vector in both]
            known[label] = ClassMemory.make(0, str(label), ids, both, self._network().space)
        self.classes_ = np.array(sorted(known))
        self.knowledge_ = Knowledge(tuple(known[label] for label in self.classes_.tolist()), self._network().space)
        self.head_ = Head(self.knowledge_)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The class of each image, or `unknown`."""
        chances = self._chances(X)
        best = chances[:, :-1].argmax(1)
        answers = self.classes_[best]
        if self.unknown is None:
            return answers
        nothing_fits = chances[:, -1] > chances[np.arange(len(best)), best]
        return np.where(nothing_fits, self.unknown, answers)

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probability of each class of `classes_`, if it is one of them."""
        known = self._chances(X)[:, :-1]
        return known / known.sum(1, keepdims=True)

    def unknown_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probability that an image shows none of the classes."""
        return self._chances(X)[:, -1]

    def _chances(self, X: Any) -> np.ndarray:  # noqa: N803
        self._must_be_fitted()
        return self.head_.probabilities(self._vectors(X))

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        """The features that classes are told apart by: (n, width) float32. What was learned does not change them."""
        self._must_be_fitted()
        return self._vectors(X)

    def _vectors(self, X: Any) -> np.ndarray:  # noqa: N803
        return self._embed(self._pictures(X, reset=False))

    def _pictures(self, X: Any, reset: bool) -> list[Any]:  # noqa: N803
        """`reset`: rows may have another length than those before."""
        if not issparse(X) and arrays.is_listed(X):
            return [arrays.picture_of(each, self.value_range) for each in X]
        if not issparse(X) and np.asarray(X).ndim > 2:
            return arrays.pictures_of(np.asarray(X), self.value_range)
        rows = validate_data(self, X, reset=reset, dtype="numeric")
        return arrays.pictures_of(self._squares(rows), self.value_range)

    def _squares(self, rows: np.ndarray) -> np.ndarray:
        return arrays.square_rows(rows)

    def _embed(self, pictures: list[Any]) -> np.ndarray:
        network = self._network()
        read = read_all(pictures, network.reference.image_size, keep=False)
        for item in read:
            if isinstance(item, Skipped):
                raise ImageInputError(f"{item.file}: {item.reason}.")
        return network.embed([item.pixels for item in read if isinstance(item, Picture)])

    def _network(self) -> Encoder:
        if getattr(self, "_loaded", ("", None))[0] != self.encoder:
            self._loaded = (self.encoder, find(self.encoder, None))
        return self._loaded[1]

    def _must_be_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This FSCILClassifier has no classes yet; call fit or partial_fit first.")

    @property
    def _n_features_out(self) -> int:
        return self._network().space.width

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "knowledge_")

    def __getstate__(self) -> dict[str, Any]:
        """Without the network: a pickle or a clone loads it again by name."""
        state = dict(super().__getstate__())
        state.pop("_loaded", None)
        return state

"""The same learner as a scikit-learn classifier, in memory and without a folder.

classifier = FSCILClassifier().fit(images, labels)        # uint8 (n, h, w, 3)
classifier.partial_fit(more_images, more_labels)          # new classes or more images of old ones
classifier.predict_proba(images)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from fscil.core.errors import InputError
from fscil.teach.encoders.loading import find
from fscil.teach.learning import calibration
from fscil.teach.learning.encoder import Encoder
from fscil.teach.learning.knowledge import ClassMemory, Knowledge
from fscil.teach.project.pictures import Picture, read_all
from fscil.teach.project.records import Skipped


class FSCILClassifier(ClassifierMixin, BaseEstimator):
    """`unknown`: the label to give where no class fits; None: always the nearest class.

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
    calibration_: calibration.Calibration

    def __init__(self, encoder: str = "glyphs", unknown: Any = None) -> None:
        self.encoder = encoder
        self.unknown = unknown

    def fit(self, X: Any, y: Any) -> FSCILClassifier:  # noqa: N803  (scikit-learn's names)
        """Start over with these images."""
        for name in ("classes_", "knowledge_", "calibration_"):
            self.__dict__.pop(name, None)
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> FSCILClassifier:  # noqa: N803
        """Learn more. `classes` is not needed: new ones may come at any time. The order of calls does not matter."""
        labels = np.asarray(y)
        vectors = self._vectors(X)
        if labels.ndim != 1 or len(labels) != len(vectors):
            raise InputError(
                f"There are {len(vectors)} images but labels of shape {labels.shape}; give one label each."
            )
        known: dict[Any, ClassMemory] = {}
        if self.__sklearn_is_fitted__():
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
        self.calibration_ = calibration.fit(self.knowledge_, self._network().prior)
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
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This FSCILClassifier has no classes yet; call fit or partial_fit first.")
        return self.calibration_.probabilities(self.knowledge_.scores(self._vectors(X)))

    def _vectors(self, X: Any) -> np.ndarray:  # noqa: N803
        images = np.asarray(X)
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8:
            raise InputError(f"Images must be uint8 (n, height, width, 3); got {images.dtype} {images.shape}.")
        network = self._network()
        read = read_all(list(images), network.reference.image_size, keep=False)
        for item in read:
            if isinstance(item, Skipped):
                raise InputError(f"{item.file}: {item.reason}.")
        return network.embed([item.pixels for item in read if isinstance(item, Picture)])

    def _network(self) -> Encoder:
        if getattr(self, "_loaded", ("", None))[0] != self.encoder:
            self._loaded = (self.encoder, find(self.encoder, None))
        return self._loaded[1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "knowledge_")

    def __getstate__(self) -> dict[str, Any]:
        """Without the network: a pickle or a clone loads it again by name."""
        state = dict(super().__getstate__())
        state.pop("_loaded", None)
        return state

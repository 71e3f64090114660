"""t-SNE maps of features (van der Maaten and Hinton 2008), as in the paper's figure 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fscil.core.errors import InputError

MIN_POINTS = 5


def tsne_panels(features: Mapping[str, np.ndarray], seed: int) -> list[dict[str, Any]]:
    """Panels of analysis.json: two coordinates per row of each (n, d) array of features; same seed, same numbers.

    Features are scaled to unit length first, because the classifiers compare by cosine. Every map is turned and
    mirrored to match the one before it, which t-SNE leaves open, so that a cluster can be followed by eye.
    """
    panels = []
    previous: np.ndarray | None = None
    for label, array in features.items():
        points = _embed(_unit(label, array), seed)
        if previous is not None and len(previous) == len(points):
            points = _turned(points, previous)
        previous = points
        panels.append({"label": label, "points": [[round(float(x), 2), round(float(y), 2)] for x, y in points]})
    return panels


def _unit(label: str, array: np.ndarray) -> np.ndarray:
    values = np.asarray(array, dtype=np.float32)
    if values.ndim != 2 or len(values) < MIN_POINTS or not np.isfinite(values).all():
        raise InputError(
            f"The features '{label}' cannot be mapped: give at least {MIN_POINTS} rows of finite numbers, "
            f"not shape {values.shape}."
        )
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)


def _embed(values: np.ndarray, seed: int) -> np.ndarray:
    # Here, not above: scikit-learn takes a second to load, and most reports have no features at hand.
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    model = TSNE(
        perplexity=min(30.0, (len(values) - 1) / 3),
        init="random" if values.shape[1] < 2 else "pca",
        random_state=seed,
        n_jobs=1,
    )
    # One thread: sums over several come out in a different order, hence different in the last digits.
    with threadpool_limits(limits=1):
        points = model.fit_transform(values)
    return points - points.mean(axis=0)


def _turned(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The rotation or reflection that brings the points closest to the target (orthogonal Procrustes)."""
    left, _, right = np.linalg.svd(points.T @ target)
    return points @ left @ right

"""Two coordinates for a map of the feature space."""

from __future__ import annotations

import numpy as np


def principal_axes(points: np.ndarray) -> np.ndarray:
    """The two directions (2, width) in which the points differ most; each with its largest entry positive."""
    axes = np.zeros((2, points.shape[1]), dtype=np.float32)
    if len(points) > 1:
        directions = np.linalg.svd((points - points.mean(0)).astype(np.float64), full_matrices=False)[2][:2]
        largest = np.abs(directions).argmax(1)
        axes[: len(directions)] = directions * np.sign(directions[np.arange(len(directions)), largest])[:, None]
    return axes

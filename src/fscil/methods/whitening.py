"""Features freed of the spread inside classes, so that differences between images of one class count for little.

The pooled covariance of base images around their class means says in which directions images of one class differ; its
inverse root takes them out. What is left compares new classes better than the features themselves, since light, pose or
typeface vary in new classes much as they do in old ones (linear discriminant analysis, with the base classes' spread
lent to all).
"""

import torch
from torch import Tensor

from fscil.methods.base import means_by_label


def within_class_whitening(features: Tensor, labels: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """Centre (d,) and symmetric matrix (d, d) of features (n, d) whose labels count from 0: x -> (x - centre) @ matrix.

    `shrinkage`, in mean variances, is added to the covariance: a network pulls the classes it is trained on together,
    and directions that look quiet there need not be quiet in new classes.
    """
    classes = int(labels.max()) + 1
    x = features.double()
    inside = x - means_by_label(x, labels, classes)[labels]
    covariance = inside.T @ inside / max(1, len(x) - classes)
    eye = torch.eye(len(covariance), dtype=x.dtype, device=x.device)
    values, vectors = torch.linalg.eigh(covariance + shrinkage * covariance.diagonal().mean() * eye)
    roots = values.clamp(min=1e-12).rsqrt()  # one image per class has no spread
    return x.mean(0).float(), (vectors * roots @ vectors.T).float()

"""Whitened layers against scikit-learn's discriminant analysis and against a loop over images."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.covariance import EmpiricalCovariance

from fscil.data.session import Session, View
from fscil.methods.whitened import Whitened

BASE, EACH, DIM, BLOCKS = 4, 30, 3, (2, 3)


def session(index: int, classes: range, each: int, seed: int) -> Session:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes.start, classes.stop), each)
    stretch = np.diag([5.0, 1.0, 0.2, 3.0, 1.0, 0.5])  # images of one class differ most where it matters least
    x = rng.normal(size=(classes.stop, 2 * DIM))[labels] + rng.normal(size=(len(labels), 2 * DIM)) @ stretch
    x = torch.tensor(x, dtype=torch.float32)
    view = View(torch.zeros(len(x), DIM), {2: x[:, :DIM], 3: x[:, DIM:]})
    return Session(index, classes, None, torch.from_numpy(labels), view=view)


def taught(**options: float) -> tuple[Whitened, Session, Session]:
    method = Whitened(layers=BLOCKS, **options)
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    base, novel = session(0, range(BASE), EACH, 0), session(1, range(BASE, BASE + 2), 5, 1)
    method.fit_base(base)
    method.fit_novel(novel)
    return method, base, novel


def joined(of: Session) -> np.ndarray:
    assert of.view is not None
    return torch.cat([of.view.layers[block] for block in BLOCKS], 1).double().numpy()


def test_scores_are_cosines_after_whitening_by_scikit_learns_covariance() -> None:
    shrinkage, bonus = 0.7, 0.25
    method, base, novel = taught(shrinkage=shrinkage, novel_bonus=bonus)
    x, labels = joined(base), base.labels.numpy()
    inside = np.concatenate([x[labels == c] - x[labels == c].mean(0) for c in range(BASE)])
    spread = EmpiricalCovariance(assume_centered=True).fit(inside).covariance_ * len(x) / (len(x) - BASE)
    values, vectors = np.linalg.eigh(spread + shrinkage * np.trace(spread) / len(spread) * np.eye(len(spread)))
    root = vectors @ np.diag(values**-0.5) @ vectors.T

    def white(rows: np.ndarray) -> np.ndarray:
        moved = (rows - x.mean(0)) @ root
        return moved / np.linalg.norm(moved, axis=1, keepdims=True)

    means = []
    for part in (base, novel):
        for label in part.classes:
            mean = white(joined(part)[part.labels.numpy() == label]).mean(0)
            means.append(mean / np.linalg.norm(mean))
    expected = white(joined(novel)) @ np.stack(means).T
    expected[:, BASE:] += bonus
    assert novel.view is not None
    assert np.allclose(method.scores(novel.view).numpy(), expected, atol=1e-4)


def test_the_bonus_moves_images_to_new_classes_and_nothing_else() -> None:
    plain, base, _ = taught()
    generous, *_ = taught(novel_bonus=0.3)
    assert base.view is not None
    difference = generous.scores(base.view) - plain.scores(base.view)
    assert torch.allclose(difference[:, :BASE], torch.zeros(1), atol=1e-6)
    assert torch.allclose(difference[:, BASE:], torch.tensor(0.3), atol=1e-6)


def test_blocks_by_the_depth_of_the_network() -> None:
    assert Whitened().blocks(12) == (7, 8, 9, 10)
    assert Whitened().blocks(4) == (2, 3)
    assert Whitened().blocks(1) == (1,)
    assert Whitened(layers=(5,)).blocks(12) == (5,)

"""What a report shows beside the results: accuracy by layer, and t-SNE maps of the features (paper, figure 3)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fscil.core.errors import InputError
from fscil.core.progress import Update
from fscil.data import Benchmark
from fscil.evaluation.protocol import run_method
from fscil.experiments.runner import NetworkRun
from fscil.methods import Method, Prototypes, YourSelf
from fscil.methods.yourself import RECTIFIED, WHITENED
from fscil.metrics import summary

SCHEMA = 1
MIN_POINTS = 5
MAP_STEPS = 1000  # of t-SNE
_MAP_BASE_CLASSES, _MAP_NOVEL_CLASSES, _MAP_PER_CLASS = 8, 8, 30  # the map stays readable with few classes


def analyse(
    on: NetworkRun, results: Sequence[Mapping[str, Any]], method: Method | None, progress: Update
) -> dict[str, Any]:
    """The analysis document. `method` is YourSelf after all sessions of draw 0; without it there are no layers."""
    if not isinstance(method, YourSelf):
        return {"schema": SCHEMA, "layers": [], "tsne": None}
    blocks = method.blocks(on.cache.backbone.depth)
    steps, layers = len(blocks) + 3, []
    for done, block in enumerate((*blocks, 0)):
        found = [_raw_layer(on, block, draw) for draw in range(on.config.draws)]
        layers.append(_layer(f"block {block}" if block else "final", "raw", block or None, found))
        progress(done + 1, steps)
    mine = [result for result in results if result["method"] == YourSelf.name]
    whole = [result["metrics"] for result in mine]

    def part(label: str) -> list[Mapping[str, Any]]:
        return [result["variants"][label]["metrics"] for result in mine]

    layers += [_layer(f"block {block}", "rectified", block, part(f"block {block}")) for block in blocks]
    if method.whitened:
        layers.append(_layer("together", "ensemble", None, part(RECTIFIED)))
        layers.append(_layer("whitened", "whitened", None, part(WHITENED)))
        layers.append(_layer("whole", "whole", None, whole))
    else:
        layers.append(_layer("together", "ensemble", None, whole))
    tsne = _maps(on, method)
    progress(steps, steps)
    return {"schema": SCHEMA, "layers": layers, "tsne": tsne}


def _raw_layer(on: NetworkRun, block: int, draw: int) -> Mapping[str, Any]:
    """Metrics of class means on one layer's own features."""
    method, benchmark = Prototypes(block=block), on.benchmark.draw(draw)
    return summary(run_method(method, benchmark, on.cache, seed=on.config.seed, device=on.device).matrix)


def _layer(label: str, kind: str, block: int | None, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over the draws."""
    means = {key: float(np.mean([m[key] for m in metrics])) for key in ("aacc", "gacc_grid", "base", "novel")}
    return {"label": label, "kind": kind, "block": block, **means}


def _maps(on: NetworkRun, method: YourSelf) -> dict[str, Any]:
    """t-SNE of test features of some base and some novel classes: by layer, final, and rectified at the end."""
    draw = on.benchmark.draw(0)
    last = draw.novel_sessions
    chosen = [
        *_spaced(0, draw.base, _MAP_BASE_CLASSES),
        *_spaced(draw.base, draw.class_range(last).stop, min(_MAP_NOVEL_CLASSES, draw.way * last)),
    ]
    images, labels = [], []
    for index in range(last + 1):
        exam = draw.exam(index)
        for label in chosen:
            rows = torch.nonzero(exam.labels == label).flatten()[:_MAP_PER_CLASS]
            images.append(exam.images[rows])
            labels += [label] * len(rows)
    blocks = method.blocks(on.cache.backbone.depth)
    view = on.cache.get(torch.cat(images), blocks).to(on.device)
    features = {f"block {block}": view.layers[block] for block in blocks}
    features["final"] = view.final
    features["rectified"] = method.rectified(view).mean(0)
    return {
        "panels": tsne_panels({name: x.cpu().numpy() for name, x in features.items()}, seed=on.config.seed),
        "class_of_point": [chosen.index(label) for label in labels],
        "class_names": [draw.class_names[label] for label in chosen],
        "novel": [label >= draw.base for label in chosen],
    }


def most_points(benchmark: Benchmark) -> int:
    """Of a map."""
    novel = benchmark.way * benchmark.novel_sessions
    return (min(_MAP_BASE_CLASSES, benchmark.base) + min(_MAP_NOVEL_CLASSES, novel)) * _MAP_PER_CLASS


def _spaced(start: int, stop: int, count: int) -> list[int]:
    """Whole numbers from start to below stop, evenly apart."""
    found: list[int] = np.linspace(start, stop - 1, min(count, stop - start)).round().astype(int).tolist()
    return found


def tsne_panels(features: Mapping[str, np.ndarray], seed: int) -> list[dict[str, Any]]:
    """Two coordinates per row of each (n, d) array of features (van der Maaten and Hinton 2008); same seed, same map.

    Features are scaled to unit length first, because the classifiers compare by cosine. Every map is turned and
    mirrored to match the one before it, which t-SNE leaves open, so that a cluster can be followed by eye.
    """
    panels = []
    previous: np.ndarray | None = None
    for label, array in features.items():
        points = embedded(_unit(label, array), seed)
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


def embedded(values: np.ndarray, seed: int, steps: int = MAP_STEPS) -> np.ndarray:
    """By t-SNE; two coordinates per row."""
    # Here, not above: scikit-learn takes a second to load.
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    model = TSNE(
        perplexity=min(30.0, (len(values) - 1) / 3),
        init="random" if values.shape[1] < 2 else "pca",
        random_state=seed,
        max_iter=steps,
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

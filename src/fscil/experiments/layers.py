"""What the report shows beside the results: accuracy by layer, and a t-SNE map of the features (paper, fig. 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from fscil.core.config import Config
from fscil.data import Benchmark
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.experiments.maps import tsne_panels
from fscil.methods import Method, Prototypes, YourSelf
from fscil.metrics import summary

_MAP_BASE_CLASSES, _MAP_NOVEL_CLASSES, _MAP_PER_CLASS = 8, 8, 30  # the map stays readable with few classes


def analyse(
    config: Config,
    benchmark: Benchmark,
    cache: FeatureCache,
    device: torch.device,
    results: Sequence[dict[str, Any]],
    method: Method | None,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """The analysis document. `method` is YourSelf after all sessions of draw 0; without it there are no layers."""
    if not isinstance(method, YourSelf):
        return {"schema": 1, "layers": [], "tsne": None}
    blocks = method.blocks(cache.backbone.depth)
    layers = []
    for done, block in enumerate((*blocks, 0)):
        matrices = [
            run_method(Prototypes(block=block), benchmark.draw(draw), cache, seed=config.seed, device=device).matrix
            for draw in range(config.draws)
        ]
        label = f"block {block}" if block else "final"
        layers.append(_layer(label, "raw", block or None, [dict(summary(matrix)) for matrix in matrices]))
        progress(done + 1, len(blocks) + 3)
    mine = [result for result in results if result["method"] == YourSelf.name]
    for block in blocks:
        branch = [result["variants"][f"block {block}"]["metrics"] for result in mine]
        layers.append(_layer(f"block {block}", "rectified", block, branch))
    layers.append(_layer("ensemble", "ensemble", None, [result["metrics"] for result in mine]))
    tsne = _map(config, benchmark, cache, device, method)
    progress(len(blocks) + 3, len(blocks) + 3)
    return {"schema": 1, "layers": layers, "tsne": tsne}


def _layer(label: str, kind: str, block: int | None, metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the draws."""
    means = {key: float(np.mean([m[key] for m in metrics])) for key in ("aacc", "gacc_grid", "base", "novel")}
    return {"label": label, "kind": kind, "block": block, **means}


def _map(
    config: Config, benchmark: Benchmark, cache: FeatureCache, device: torch.device, method: YourSelf
) -> dict[str, Any]:
    """t-SNE of test features of some base and some novel classes: by layer, final, and rectified at the end."""
    draw = benchmark.draw(0)
    last = draw.novel_sessions
    chosen = [
        *np.linspace(0, draw.base - 1, min(_MAP_BASE_CLASSES, draw.base)).round().astype(int).tolist(),
        *np.linspace(draw.base, draw.class_range(last).stop - 1, min(_MAP_NOVEL_CLASSES, draw.way * last))
        .round()
        .astype(int)
        .tolist(),
    ]
    images, labels = [], []
    for index in range(last + 1):
        exam = draw.exam(index)
        for label in chosen:
            rows = torch.nonzero(exam.labels == label).flatten()[:_MAP_PER_CLASS]
            images.append(exam.images[rows])
            labels += [label] * len(rows)
    blocks = method.blocks(cache.backbone.depth)
    view = cache.get(torch.cat(images), blocks).to(device)
    features = {f"block {block}": view.layers[block] for block in blocks}
    features["final"] = view.final
    features["rectified"] = method.rectified(view).mean(0)
    panels = tsne_panels({name: x.cpu().numpy() for name, x in features.items()}, seed=config.seed)
    return {
        "panels": panels,
        "class_of_point": [chosen.index(label) for label in labels],
        "class_names": [draw.class_names[label] for label in chosen],
        "novel": [label >= draw.base for label in chosen],
    }

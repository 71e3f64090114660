"""A made-up ablation document with plausible numbers, for tests of tables and pages."""

from __future__ import annotations

from typing import Any

import numpy as np

SCORES = ("gacc_grid", "gacc_exact", "aacc", "base", "novel", "lacc")
CLASSES = [60, *[5] * 8]


def document(draws: int = 3, dataset: str = "cifar100", **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def scores(level: float) -> dict[str, list[float]]:
        return {key: (level + rng.normal(0, 0.3, draws)).tolist() for key in SCORES}

    def quality(error: float) -> dict[str, dict[str, list[float]]]:
        keys = {"ece_mass": error, "ece_width": error, "nll": 1.2, "brier": 0.4, "accuracy": 60.0, "confidence": 45.0}
        return {
            group: {key: (value + rng.normal(0, 0.01, draws)).tolist() for key, value in keys.items()}
            for group in ("all", "base", "novel")
        }

    def bins() -> dict[str, Any]:
        line = [[0.1 * i, 0.1 * i, 0.1] for i in range(1, 10)]
        return {moment: dict.fromkeys(("all", "base", "novel"), line) for moment in ("before", "after")}

    names = ("prototypes", "yourself-cos", "yourself-cos-cr", "yourself", "whitened")
    kinds = [("8-raw", "raw", 8), ("8-rectified", "rectified", 8), ("final", "raw", 0)]
    kinds += [("raw-blocks", "raw ensemble", 0), ("raw-all", "raw ensemble", 0), ("ensemble", "ensemble", 0)]
    kinds += [("whitened", "whitened", 0), ("whole", "whole", 0)]
    weights = {"cos": {"weight_cos": 0.1}, "cr": {"weight_cr": 0.5}, "ir": {"weight_intra": 0.3, "weight_inter": 0.0}}
    return {
        "schema": 1,
        "kind": "ablation",
        "recipe": "cifar100_yourself",
        "dataset": dataset,
        "draws": draws,
        "seconds": 1234.5,
        "network": "ab" * 32,
        "hardware": {"device": "cuda", "name": "A GPU", "torch": "2.11"},
        "options": {
            "weight_all": 0.3,
            "weight_cr": 0.5,
            "weight_intra": 0.3,
            "weight_inter": 0.0,
            "whitened": 0.3,
            "scale": 16.0,
        },
        "config": {"data": {"shot": 5}},
        "classes": CLASSES,
        "commit": "abc1234",
        "steps": [{"key": key, "label": f"row {i}", "scores": scores(60 + i)} for i, key in enumerate(names)],
        "layers": [
            {"key": key, "label": f"layer {key}", "kind": kind, "block": block, "scores": scores(50 + i)}
            for i, (key, kind, block) in enumerate(kinds)
        ],
        "choices": [
            {"key": "recipe", "label": "as in the recipe", "scores": scores(60)},
            {"key": "joint=False", "label": "apart", "scores": scores(50), "options": {"joint": False}},
            {"key": "top_k=4", "label": "four", "scores": scores(60), "options": {"top_k": 4}},
        ],
        "diagnosis": [
            {"block": 0, "values": {"common": 11.0, "head": 0.95, "entropy": 99.0, "wrong": 10.0, "novel": 90.0}},
            {
                "block": 8,
                "values": {"common": 20.0, "cosine": 0.6, "cka": 0.8, "entropy": 70.0, "wrong": 30.0, "novel": 4.0},
            },
        ],
        "curves": [
            {
                "key": key,
                "label": f"β_{key}",
                "about": f"about {key}",
                "weights": weights[key],
                "points": [{"factor": f, "scores": scores(60 + f)} for f in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)],
            }
            for key in weights
        ],
        "predictors": [
            {
                "key": key,
                "label": f"predictor {key}",
                "temperatures": {"left_out": [0.5] * draws, "base_training": [0.2] * draws, "test": [0.6] * draws},
                "before": quality(20.0),
                "after": quality(4.0),
                "bins": bins(),
            }
            for key in ("prototypes", "block 8", "ensemble")
        ],
        "costs": [
            {"key": key, "label": f"cost {key}", "microseconds": us, "mflops": us / 10, "parameters": int(us * 1000)}
            for key, us in (("backbone", 200.0), ("layers", 205.0), ("means", 0.2), ("one", 3.0), ("all", 8.0))
        ],
        "batch": 256,
        **changes,
    }

"""How the settings of the glyphs recipe were chosen, without its test set and without its novel classes.

    python benchmarks/tune_glyphs.py network      base training, by accuracy of base characters in held-out fonts
    python benchmarks/tune_glyphs.py rectifier    YourSelf, by pseudo-sessions made of base characters

Only training images of the 60 base characters are used. 40 of them are the pseudo-base, 20 come in 4 pseudo-sessions;
the network is trained on the sans-serif and mono fonts and tested on the serif ones. docs/design.md has the outcome.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fscil.core import config as configs
from fscil.core.config import Config
from fscil.data import Benchmark, Dataset, ImageSet
from fscil.data.glyphs import TRAIN_FONTS, TRAIN_PER_CLASS, load
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.methods import make
from fscil.metrics import summary
from fscil.training.checkpoint import Checkpoint
from fscil.training.loop import train_base

NETWORKS: dict[str, list[str]] = {
    "recipe": [],
    "plain patches": ["backbone.stem=patch"],
    "lr 4e-3": ["train.lr=4e-3"],
    "no label smoothing": ["train.label_smoothing=0"],
    "no augmentation": [f"train.augment.{key}=0" for key in ("rotate", "translate", "scale", "shear", "erase")],
    "weight decay 0.3": ["train.weight_decay=0.3"],
    "no erasing": ["train.augment.erase=0"],
    "batch 64": ["train.batch_size=64"],
    "depth 8": ["backbone.depth=8"],
}
RECTIFIERS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper's FR module": {"residual": False, "base_steps": 600},
    "Gaussians per layer": {"joint": False},
    "CR from shared prototypes": {"own_relations": False},
    "CR the other way round": {"reverse_relations": True},
    "mean of logits": {"ensemble": "logits"},
    "novel CE 0.5": {"weight_novel": 0.5},
    "novel CE 2": {"weight_novel": 2.0},
    "CR 0": {"weight_cr": 0.0},
    "CR 1": {"weight_cr": 1.0},
    "IR 0": {"weight_intra": 0.0},
    "IR 0.1 and 0.1": {"weight_intra": 0.1, "weight_inter": 0.1},
    "IR 1 and 1": {"weight_intra": 1.0, "weight_inter": 1.0},
    "cos 0.5": {"weight_cos": 0.5},
    "no CE on all classes": {"weight_all": 0.0},
    "CE on all classes 1": {"weight_all": 1.0},
    "half the steps": {"base_steps": 100, "novel_steps": 80},
    "no whitened features": {"whitened": 0.0},
    "whitened features 0.5": {"whitened": 0.5},
    "whitened features 0.7": {"whitened": 0.7},
    "shrinkage 0.3": {"shrinkage": 0.3},
    "shrinkage 3": {"shrinkage": 3.0},
    "as the released scripts": {
        "residual": False,
        "joint": False,
        "own_relations": False,
        "ensemble": "logits",
        "weight_novel": 2.0,
        "weight_all": 0.0,
        "weight_intra": 1.0,
        "weight_inter": 1.0,
        "whitened": 0.0,
        "base_steps": 600,
    },
}


def pseudo_benchmark(config: Config) -> Benchmark:
    """40 + 4 x 5 base characters; serif fonts held out."""
    whole = load()
    base = whole.train.labels < 60
    images, labels = whole.train.images[base], whole.train.labels[base]
    font = np.arange(TRAIN_PER_CLASS) % len(TRAIN_FONTS)
    held_out = np.tile(np.char.find(np.array(TRAIN_FONTS)[font], "Serif") >= 0, 60)
    dataset = Dataset(
        "pseudo-glyphs",
        ImageSet(images[~held_out], labels[~held_out]),
        ImageSet(images[held_out], labels[held_out]),
        whole.class_names[:60],
    )
    return Benchmark(dataset, dataclasses.replace(config.data, base=40))


def train(config: Config, benchmark: Benchmark) -> Checkpoint:
    with tempfile.TemporaryDirectory() as folder:
        return train_base(benchmark.session(0), config, Path(folder))


def tune_network(seeds: int, extra: list[str], only: str) -> None:
    for label, overrides in NETWORKS.items():
        if only and label != only:
            continue
        scores = []
        for seed in range(seeds):
            config = configs.load("glyphs", [*overrides, *extra, f"seed={seed}"])
            benchmark = pseudo_benchmark(config)
            exam, classifier = benchmark.exam(0), train(config, benchmark).classifier
            scores.append(100 * float((classifier(exam.images).argmax(1) == exam.labels).float().mean()))
        print(f"{label:28s} {np.mean(scores):6.2f}  {np.round(scores, 2)}", flush=True)


def tune_rectifier(draws: int, extra: list[str], only: str) -> None:
    config = configs.load("glyphs", extra)
    benchmark = pseudo_benchmark(config)
    network = train(config, benchmark)
    with tempfile.TemporaryDirectory() as folder:
        cache = FeatureCache(Path(folder), network.backbone)
        for label, options in {"prototypes": None, **RECTIFIERS}.items():
            if only and label != only:
                continue
            rows = []
            for draw in range(draws):
                method = make("prototypes") if options is None else make("yourself", options)
                matrix = run_method(method, benchmark.draw(draw), cache, device=torch.device("cpu")).matrix
                rows.append([summary(matrix)[key] for key in ("gacc_grid", "aacc", "novel", "base")])
            means = np.mean(rows, 0)
            print(
                f"{label:28s} gAcc {means[0]:.2f}  aAcc {means[1]:.2f}  novel {means[2]:.2f}  base {means[3]:.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["network", "rectifier"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="this row alone")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    {"network": tune_network, "rectifier": tune_rectifier}[arguments.what](
        arguments.seeds, arguments.overrides, arguments.only
    )


if __name__ == "__main__":
    main()

"""How OrCo's base training on glyphs is chosen, without the test set and without novel classes.

    python benchmarks/tune_orco.py [TRIAL ...]

The split of `tune_glyphs.py`: training images of 40 base characters in sans-serif and mono fonts; asked are the serif
ones, by the nearest class mean. Every trial is written to results/glyphs/orco_base_training.json, which holds the rule
too: it was written before the first trial. docs/methods/orco.md says what is known so far.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tune_glyphs import pseudo_benchmark

from fscil.core import config as configs
from fscil.core.storage import write_text
from fscil.data import Benchmark
from fscil.methods.base import means_by_label
from fscil.objectives.base import batched_features
from fscil.training.checkpoint import Checkpoint
from fscil.training.loop import train_base

OUT = Path(__file__).parents[1] / "results" / "glyphs" / "orco_base_training.json"
WHAT = (
    "Base training of OrCo on 40 base characters in sans-serif and mono fonts, one seed each: what nearest class means "
    "name of the same characters in serif fonts (base training images too), in percent."
)
RULE = (
    "Of the trials within ten points of cross-entropy the one that keeps most of the published training: the contrast "
    "from random weights, first with settings nearer to the published ones; else, as published for CUB-200, other "
    "first weights in place of the contrast, those of cross-entropy, and the network at rest in the alignment, as on "
    "CIFAR-100."
)
GREYS = ["train.augment.brightness=0.4", "train.augment.contrast=0.4", "train.augment.noise=0.1"]
CLASSES_FIRST = [
    "train.objective=cross_entropy",
    "train.objective_options={}",
    "train.epochs=40",
    "train.label_smoothing=0.1",
]
CONTRAST = ["train.objective=orco", "train.objective_options={views=2}", "train.epochs=20", "train.label_smoothing=0"]

# As many images go through the network in all of them.
TRIALS: dict[str, list[str]] = {
    "contrast": CONTRAST,
    "contrast, greys changed, a quarter of the rate": [*CONTRAST, *GREYS, "train.lr=5e-4"],
    "cross-entropy": CLASSES_FIRST,
}


def named(network: Checkpoint, benchmark: Benchmark) -> float:
    session, exam = benchmark.session(0), benchmark.exam(0)
    assert session.images is not None
    with torch.no_grad():
        known, asked = (
            F.normalize(batched_features(network.classifier, part), dim=-1) for part in (session.images, exam.images)
        )
    means = F.normalize(means_by_label(known, session.labels, len(session.classes)), dim=-1)
    return 100 * float(((asked @ means.T).argmax(1) == exam.labels).double().mean())


def tried(overrides: list[str]) -> dict[str, Any]:
    """The first stage: in the second the network stays as it is."""
    config = dataclasses.replace(configs.load("glyphs_orco", overrides), second=None)
    benchmark = pseudo_benchmark(config)
    with tempfile.TemporaryDirectory() as folder:
        network = train_base(benchmark.session(0), config, Path(folder))
    losses = network.info["losses"]
    tenth = max(1, len(losses) // 10)
    return {
        "settings": overrides,
        "updates": len(losses),
        "loss": {"first_tenth": sum(losses[:tenth]) / tenth, "last_tenth": sum(losses[-tenth:]) / tenth},
        "class_means": named(network, benchmark),
    }


def main() -> None:
    found = json.loads(OUT.read_text()) if OUT.exists() else {}
    found = {"what": WHAT, "rule": RULE, "hardware": "two CPU cores", "trials": found.get("trials", {})}
    for name in sys.argv[1:] or TRIALS:
        found["trials"][name] = tried(TRIALS[name])
        print(name, found["trials"][name], flush=True)
        write_text(OUT, json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Choose a method's options without the test set: pseudo-sessions made of base classes.

Some base classes play the base, the others come in few-shot sessions; a share of every class's training images plays
the test set. The network is trained on the pseudo-base alone, so that the pseudo-novel classes are as new to it as real
ones would be. Everything starts from the base session: test images and novel classes cannot be reached from here.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fscil import methods
from fscil.core.config import Config, DataConfig, to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import pick_device
from fscil.core.progress import Reporter
from fscil.core.storage import read_json, write_json
from fscil.data import Benchmark, Dataset, ImageSet, Session
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.metrics import summary
from fscil.training.checkpoint import Checkpoint, load_classifier
from fscil.training.loop import same_training, train_base

HELD_OUT = 0.3  # share of each base class's training images that plays the test set
_KEYS = ("gacc_grid", "aacc", "novel", "base")


@dataclass(frozen=True)
class Trial:
    """One setting of the options, and what it gave over the draws of the pseudo-shots."""

    options: Mapping[str, Any]  # what differs from the recipe's
    scores: Mapping[str, list[float]]  # per key, one value per draw

    def mean(self, key: str) -> float:
        return fmean(self.scores[key])

    def spread(self, key: str) -> float:
        return stdev(self.scores[key]) if len(self.scores[key]) > 1 else 0.0


def pseudo_benchmark(session: Session, class_names: Sequence[str], data: DataConfig, seed: int = 0) -> Benchmark:
    """A benchmark inside the base session: two thirds of its classes as base, the rest in sessions as the real ones."""
    count = len(session.classes)
    novel = data.way * max(1, round(count / 3 / data.way))
    if count - novel < 2:
        raise InputError(
            f"{count} base classes are too few to make pseudo-sessions of {data.way}; "
            f"lower data.way or raise data.base."
        )
    learn, test = session.hold_out(HELD_OUT, seed)
    assert learn.images is not None
    assert test.images is not None
    dataset = Dataset(
        "pseudo-sessions",
        ImageSet(learn.images.numpy(), learn.labels.numpy()),
        ImageSet(test.images.numpy(), test.labels.numpy()),
        tuple(class_names[:count]),
    )
    return Benchmark(dataset, DataConfig(base=count - novel, way=data.way, shot=data.shot, order_seed=seed))


def settings(tries: Sequence[str], method: str) -> list[dict[str, Any]]:
    """Every combination of `key=value,value,...`; the empty setting, the recipe as it is, comes first."""
    axes = []
    for text in tries:
        key, separator, values = text.partition("=")
        if not separator or not values.strip():
            raise InputError(
                f"'--try {text}' is not of the form key=value,value; write for example weight_novel=0.5,1,2."
            )
        axes.append([(key.strip(), _value(value)) for value in values.split(",")])
    combinations = [dict(combination) for combination in itertools.product(*axes)] if axes else []
    for combination in combinations:
        methods.make(method, combination)  # refuse a wrong key or type before anything is trained
    return [{}, *[combination for combination in combinations if combination]]


def tune(
    config: Config, benchmark: Benchmark, method: str, tries: Sequence[str], out: Path, reporter: Reporter
) -> list[Trial]:
    """All settings, each on `config.draws` pseudo-draws, best gAcc (grid) first. Restartable: a trial is one file."""
    wanted = settings(tries, method)
    pseudo = pseudo_benchmark(benchmark.session(0), benchmark.class_names, config.data, config.seed)
    network = _network(config, pseudo, out / "base", reporter)
    cache = FeatureCache(out / "features", network.backbone)
    trials = []
    with reporter.task(f"Settings of {method}") as update:
        for done, options in enumerate(wanted):
            full = methods.make(method, {**config.options.get(method, {}), **options}).options()
            path = out / "trials" / f"{_name(method, full, config.draws)}.json"
            if not path.exists():
                write_json(path, _measure(config, pseudo, method, full, cache, network))
            trials.append(Trial(options, read_json(path)["scores"]))
            update(done + 1, len(wanted))
    return sorted(trials, key=lambda trial: -trial.mean("gacc_grid"))


def _network(config: Config, pseudo: Benchmark, folder: Path, reporter: Reporter) -> Checkpoint:
    fingerprint, done = pseudo.fingerprint(), folder / "backbone.safetensors"
    device = pick_device(config.accelerator)
    if done.exists():
        checkpoint = load_classifier(done, device)
        if same_training(checkpoint.info, {"config": to_dict(config), "data": fingerprint}):
            return checkpoint
        raise InputError(f"{done} was trained with other settings or other data; choose another --out.")
    with reporter.task("Pseudo-base training") as update:
        train_base(pseudo.session(0), config, folder, fingerprint=fingerprint, resume=True, progress=update)
    return load_classifier(done, device)


def _measure(
    config: Config,
    pseudo: Benchmark,
    name: str,
    options: Mapping[str, Any],
    cache: FeatureCache,
    network: Checkpoint,
) -> dict[str, Any]:
    scores: dict[str, list[float]] = {key: [] for key in _KEYS}
    for draw in range(config.draws):
        method = methods.make(name, options)
        device = pick_device(config.accelerator)
        outcome = run_method(method, pseudo.draw(draw), cache, seed=config.seed, device=device, network=network)
        measured: Mapping[str, Any] = summary(outcome.matrix)
        for key in _KEYS:
            scores[key].append(measured[key])
    return {"method": name, "options": dict(options), "scores": scores}


def _name(method: str, options: Mapping[str, Any], draws: int) -> str:
    content = json.dumps([method, sorted(options.items()), draws], default=list)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _value(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        return text

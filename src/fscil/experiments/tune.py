"""Choose a method's options without the test set: pseudo-sessions made of base classes.

Some base classes play the base, the others come in few-shot sessions; a share of every class's training images plays
the test set. The network is trained on the pseudo-base alone, so that the pseudo-novel classes are as new to it as real
ones would be. Everything starts from the base session: test images and novel classes cannot be reached from here.

    OUT/base, OUT/features                     the network of the pseudo-base
    OUT/trials/DIGEST/shots-N/result.json      one setting on one draw of the pseudo-shots
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fscil import methods
from fscil.core.config import Config, DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json
from fscil.data import Benchmark, Dataset, ImageSet, Session
from fscil.evaluation.identity import digest
from fscil.experiments.runner import NetworkRun
from fscil.results.significance import Spread, spread

HELD_OUT = 0.3  # share of each base class's training images that plays the test set
SCORES = ("gacc_grid", "aacc", "novel", "base")


@dataclass(frozen=True)
class Trial:
    """One setting of the options, and what it gave over the draws of the pseudo-shots."""

    options: Mapping[str, Any]  # what differs from the recipe's
    scores: Mapping[str, list[float]]  # per key, one value per draw

    def spread(self, key: str) -> Spread:
        return spread(self.scores[key])


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
    """All settings, each on `config.draws` pseudo-draws, best gAcc (grid) first. Restartable cell by cell."""
    wanted = settings(tries, method)
    pseudo = pseudo_benchmark(benchmark.session(0), benchmark.class_names, config.data, config.seed)
    on = NetworkRun(config, out, reporter, benchmark=pseudo)
    trials = []
    for options in wanted:
        full = methods.make(method, {**config.options.get(method, {}), **options}).options()
        folder = out / "trials" / digest([method, full])[:16]
        cells = [
            on.cell(lambda: methods.make(method, full), draw, folder / f"shots-{draw}" / "result.json")  # noqa: B023
            for draw in range(config.draws)
        ]
        on.fill(cells)
        found = [read_json(cell.path)["metrics"] for cell in cells]
        trials.append(Trial(options, {key: [metrics[key] for metrics in found] for key in SCORES}))
    return sorted(trials, key=lambda trial: -trial.spread("gacc_grid").mean)


def _value(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        return text

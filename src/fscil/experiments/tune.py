"""Choose a method's options without the test set: pseudo-sessions made of base classes.

Some base classes play the base, the others come in few-shot sessions; a share of every class's training images plays
the test set. The network is trained on the pseudo-base alone, so that the pseudo-novel classes are as new to it as real
ones would be. Everything starts from the base session: test images and novel classes cannot be reached from here.

    OUT/base, OUT/features                     the network of the pseudo-base
    OUT/trials/DIGEST/shots-N/result.json      one setting on one draw of the pseudo-shots
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fscil import __version__, methods
from fscil.core.config import Config, DataConfig, to_dict
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json
from fscil.data import Benchmark, Dataset, ImageSet, Session
from fscil.evaluation.identity import digest
from fscil.experiments.engines.record import write_record
from fscil.experiments.engines.run import run_tasks
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import Failures, Opener, Task
from fscil.experiments.engines.training import training_task
from fscil.experiments.runner import Cell, NetworkPlace, NetworkRun, load_data
from fscil.results.significance import Spread, spread

HELD_OUT = 0.3  # share of each base class's training images that plays the test set
_COMMA = re.compile(r",(?![^\[]*\])")  # between two values, not inside a list: layers=[3,4],[4,5]
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
        axes.append([(key.strip(), _value(value)) for value in _COMMA.split(values)])
    combinations = [dict(combination) for combination in itertools.product(*axes)] if axes else []
    for combination in combinations:
        methods.make(method, combination)  # refuse a wrong key or type before anything is trained
    return [{}, *[combination for combination in combinations if combination]]


@dataclass(frozen=True)
class Tuned:
    """Settings with scores, the best gAcc (grid) first, and why others have none."""

    trials: tuple[Trial, ...]
    failures: Failures


def tune(
    config: Config,
    method: str,
    tries: Sequence[str],
    out: Path,
    reporter: Reporter,
    engine: EngineSettings | None = None,
) -> Tuned:
    """All settings, each on `config.draws` pseudo-draws. Restartable cell by cell."""
    wanted, engine = settings(tries, method), engine or EngineSettings()
    network = NetworkPlace(config, out, sessions=pseudo_sessions)
    here = replace(network, config=config if engine.here else replace(config, accelerator="cpu")).open(reporter)
    trials = [
        _Planned(network, method, made.options(), draw, out / "trials" / digest([method, made.options()])[:16])
        for made in (methods.make(method, {**config.options.get(method, {}), **options}) for options in wanted)
        for draw in range(config.draws)
    ]
    training = training_task(network)
    tasks = {trial.key: trial.task(training) for trial in trials}  # what is asked for twice is measured once
    write_record(out, "tune", [training, *tasks.values()], engine)
    there = network.trained.exists()
    missing = [tasks[trial.key] for trial in {t.key: t for t in trials}.values() if not (there and trial.done(here))]
    failures = run_tasks(
        [training, *missing] if missing else [],
        engine,
        opened=lambda place: here,
        accelerator=config.accelerator,
        out=out,
        reporter=reporter,
    )
    if training.key in failures:
        raise failures[training.key].error()
    found = []
    for place, options in enumerate(wanted):
        cells = trials[place * config.draws : (place + 1) * config.draws]
        if not any(cell.key in failures for cell in cells):
            metrics = [read_json(cell.path)["metrics"] for cell in cells]
            found.append(Trial(options, {key: [each[key] for each in metrics] for key in SCORES}))
    best_first = sorted(found, key=lambda trial: -trial.spread("gacc_grid").mean)
    return Tuned(tuple(best_first), {tasks[key].label: failure for key, failure in failures.items()})


def pseudo_sessions(config: Config, reporter: Reporter) -> Benchmark:
    benchmark = load_data(config.data, reporter)
    return pseudo_benchmark(benchmark.session(0), benchmark.class_names, config.data, config.seed)


@dataclass(frozen=True)
class _Planned:
    """One setting on one draw of the pseudo-shots."""

    network: NetworkPlace
    method: str
    options: Mapping[str, Any]
    draw: int
    folder: Path

    @property
    def key(self) -> str:
        return f"{self.folder.name}/{self.draw}"

    @property
    def path(self) -> Path:
        return self.folder / f"shots-{self.draw}" / "result.json"

    def task(self, training: Task) -> Task:
        # A setting's first draw goes before the others: they take from it what it learned of the base session.
        after = (training.key, f"{self.folder.name}/0") if self.draw else (training.key,)
        config = to_dict(self.network.config)
        return Task(
            self.key,
            f"{self.method} with {json.dumps(self._changed())}, draw {self.draw}",
            self.path.parent,
            partial(_measure, self),
            after=after,
            group=self.folder.name,
            leaves=self.path,
            kind=f"trials/{self.method}",
            made_from=digest([__version__, config]),
        )

    def _changed(self) -> Mapping[str, Any]:
        recipe = methods.make(self.method, self.network.config.options.get(self.method)).options()
        return {name: value for name, value in self.options.items() if recipe[name] != value}

    def cell(self, on: NetworkRun) -> Cell:
        return on.cell(lambda: methods.make(self.method, self.options), self.draw, self.path)

    def done(self, on: NetworkRun) -> bool:
        try:
            return self.path.exists() and self.cell(on).done
        except InputError:
            return False  # its network is another one: said when the cell is filled


def _measure(trial: _Planned, opened: Opener) -> None:
    on = opened(trial.network)
    on.fill([trial.cell(on)])


def _value(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        return text

"""The cells of an ablation: YourSelf with options changed, raw layers, calibration, cost, all on one network.

    OUT/cells/NAME-DIGEST/shots-N.json    one setting on one draw: a result, or the calibration of that draw
    OUT/cells/cost-DIGEST.json            what inference costs
    OUT/cells/diagnosis-DIGEST.json       what FR is given to work with
    OUT/ablation.json, .md, .html         made from all of them

The digest names the options, so that every setting has a folder of its own.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from fscil import __version__
from fscil.core.config import build, to_dict
from fscil.core.hardware import describe
from fscil.core.progress import Update
from fscil.core.storage import read_json
from fscil.data.session import Session, View
from fscil.evaluation.confidence import Setup, measure_confidence
from fscil.evaluation.cost import BATCH, inference_costs
from fscil.evaluation.identity import digest
from fscil.evaluation.protocol import prepare
from fscil.experiments.ablate.diagnosis import diagnose
from fscil.experiments.ablate.plan import FACTORS, Changes, Choice, betas, choices, steps
from fscil.experiments.engines.record import write_record
from fscil.experiments.engines.run import run_tasks
from fscil.experiments.engines.settings import EngineSettings
from fscil.experiments.engines.task import Failures, Opener, Task
from fscil.experiments.runner import Cell, NetworkPlace, NetworkRun
from fscil.methods import Method, Whitened, YourSelf
from fscil.methods.raw_layers import RawLayers

OTHER_RULE = "other rule"  # label of a variant


class BothRules(YourSelf):
    """Is also scored by the other rule of prediction, which takes no training of its own."""

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        other = copy.copy(self)
        other.ensemble = "softmax" if self.ensemble == "logits" else "logits"
        return {**super().variants(), OTHER_RULE: other.scores}


def study_tasks(on: NetworkRun, place: NetworkPlace, cells: Sequence[Cell], parts: tuple[str, ...]) -> list[Task]:
    """Features first, which all cells read; then of every setting one draw before the others, which take from it what
    was learned of the base session."""
    content = digest([__version__, to_dict(place.config)])
    features = Task("features", "Features", on.folder / "cells" / "features", partial(_extract, place), kind="features")
    tasks, first = [features], dict[Path, str]()
    for cell in cells:
        key = cell.path.relative_to(on.folder).as_posix()
        group = cell.path.parent if cell.path.parent.name != "cells" else cell.path
        before = first.setdefault(group, key)
        task = Task(
            key,
            cell.label,
            cell.path.with_suffix(""),
            partial(_fill, place, cell.path, parts),
            after=("features",) if before == key else ("features", before),
            group=group.name,
            leaves=cell.path,
            kind=f"cells/{group.name.rpartition('-')[0]}",
            made_from=content,
        )
        tasks.append(task)
    return tasks


def _extract(place: NetworkPlace, opened: Opener) -> None:
    on = opened(place)
    on.extract([Study(on).method])


def _fill(place: NetworkPlace, path: Path, parts: tuple[str, ...], opened: Opener) -> None:
    on = opened(place)
    study = Study(on)
    on.fill([next(cell for part in parts for cell in study.cells(part) if cell.path == path)])


class Study:
    """The cells of one network and one recipe."""

    def __init__(self, on: NetworkRun, place: NetworkPlace | None = None) -> None:
        """`place`: how other processes open the network, where tasks are done by these."""
        self.on, self.config = on, on.config
        self._place = place or NetworkPlace(on.config, on.folder)
        self.method = self.yourself({})
        self.method.start(seed=self.config.seed, depth=on.cache.backbone.depth, device=on.device)  # checks options
        self.blocks = self.method.blocks(on.cache.backbone.depth)

    def yourself(self, changes: Changes, kind: type[YourSelf] = YourSelf) -> YourSelf:
        """The recipe's YourSelf with these options changed."""
        options = {**self.config.options.get(YourSelf.name, {}), **changes}
        return build(kind, options, where=kind.prefix)

    def choices(self) -> tuple[Choice, ...]:
        return choices(self.method, head=self.on.network.class_weights is not None)

    def cells(self, part: str, draws: Iterable[int] | None = None) -> list[Cell]:
        """Of these draws, or of all: draws can be measured apart, and collected when all are there."""
        draws = range(self.config.draws) if draws is None else tuple(draws)
        if part == "calibration":
            return [*(self.calibration(draw) for draw in draws), *([self.cost()] if 0 in draws else [])]
        if part == "diagnosis":
            return [self.diagnosis()] if 0 in draws else []
        wanted: list[Changes] = [{}]
        if part == "ablation":
            wanted = [step.changes for step in steps(self.method) if step.changes is not None]
        elif part == "choices":
            wanted += [choice.changes for choice in self.choices()]
        elif part == "sensitivity":
            wanted = [beta.scaled(factor) for beta in betas(self.method) for factor in FACTORS]
        found = [self.rectified(changes, draw) for changes in wanted for draw in draws]
        if part in ("ablation", "layers"):
            found += [self.raw(draw) for draw in draws]
        if part == "ablation":
            found += [self.whitened(draw) for draw in draws]
        return found

    def measure(
        self, parts: Sequence[str], draws: Iterable[int] | None = None, engine: EngineSettings | None = None
    ) -> Failures:
        """Fill the cells that are missing; returns what could not be done and why."""
        draws, engine = None if draws is None else tuple(draws), engine or EngineSettings()
        wanted = {cell.path: cell for part in parts for cell in self.cells(part, draws)}
        if self.on.fresh:
            for path in wanted:
                path.unlink(missing_ok=True)
        missing = [cell for cell in wanted.values() if not self.on.done(cell)]
        if done := len(wanted) - len(missing):
            self.on.reporter.say(f"Measured before: {done} of {len(wanted)} cells")
        cost = self.cost().path  # is of a machine: of this one
        away = {path: cell for path, cell in wanted.items() if engine.here or path != cost}
        tasks = {task.leaves: task for task in study_tasks(self.on, self._place, list(away.values()), tuple(parts))}
        write_record(self.on.folder, "ablate", list(tasks.values()), engine)
        left = [tasks[cell.path] for cell in missing if cell.path in tasks]
        failures = run_tasks(
            [tasks[None], *left] if left else [],
            engine,
            opened=lambda place: self.on,
            accelerator=self._place.config.accelerator,
            out=self.on.folder,
            reporter=self.on.reporter,
        )
        self.on.fill([cell for cell in missing if cell.path not in tasks])
        return {task.label: failures[task.key] for task in tasks.values() if task.key in failures}

    def complete(self, part: str) -> bool:
        return all(cell.done for cell in self.cells(part))

    def seconds(self, parts: Iterable[str]) -> float:
        paths = {cell.path for part in parts for cell in self.cells(part)}
        return sum(read_json(path)["measuring_seconds"] for path in paths)

    def rectified(self, changes: Changes, draw: int) -> Cell:
        label = ", ".join(f"{name}={value}" for name, value in changes.items()) or "as in the recipe"
        make: Callable[[], Method] = lambda: self.yourself(changes, BothRules)  # noqa: E731
        return self._result("yourself", f"YourSelf, {label}, draw {draw}", make, draw)

    def raw(self, draw: int) -> Cell:
        def make() -> RawLayers:
            return RawLayers(layers=self.blocks, scale=self.method.scale)

        return self._result("raw-layers", f"raw layers, draw {draw}", make, draw)

    def whitened(self, draw: int) -> Cell:
        """Class means of the recipe's layers, whitened."""
        return self._result("whitened", f"whitened layers, draw {draw}", lambda: Whitened(layers=self.blocks), draw)

    def calibration(self, draw: int) -> Cell:
        on, options = self.on, self.method.options()

        def measure(update: Update) -> dict[str, Any]:
            make: Callable[[], YourSelf] = lambda: self.yourself({})  # noqa: E731
            setup = Setup(on.benchmark.draw(draw), on.cache, make, self.config.seed, on.device, on.network)
            return {"predictors": measure_confidence(setup)}

        path = self._folder("calibration", options) / f"shots-{draw}.json"
        return Cell(path, f"Calibration, draw {draw}", on.inputs(draw, "calibration", options), measure)

    def cost(self) -> Cell:
        on, options, hardware = self.on, self.method.options(), describe(self.on.device)

        def measure(update: Update) -> dict[str, Any]:
            costs = inference_costs(on.cache.backbone, self.method, self._sessions(), on.benchmark.exam(0).images)
            return {"hardware": hardware, "batch": BATCH, "costs": costs}

        path = self._folder("cost", [options, hardware]).with_suffix(".json")
        return Cell(path, "Cost of inference", on.inputs(0, "cost", options, hardware), measure)

    def diagnosis(self) -> Cell:
        on, options = self.on, self.method.options()

        def measure(update: Update) -> dict[str, Any]:
            found = diagnose(self._sessions(), self.method, self.blocks)
            return {"diagnosis": [{"block": block, "values": values} for block, values in found.items()]}

        path = self._folder("diagnosis", options).with_suffix(".json")
        return Cell(path, "Diagnosis", on.inputs(0, "diagnosis", options), measure)

    def _sessions(self) -> list[Session]:
        """Of draw 0, with features."""
        on, count = self.on, self.on.benchmark.novel_sessions + 1
        benchmark = on.benchmark.draw(0)
        return [prepare(benchmark.session(i), self.method, on.cache, on.device, on.network) for i in range(count)]

    def _result(self, name: str, label: str, make: Callable[[], Method], draw: int) -> Cell:
        """A result inside a cell's file: what a changed setting gives is not a result of the run."""
        path = self._folder(name, make().options()) / f"shots-{draw}.json"
        cell = self.on.cell(make, draw, path)
        return replace(cell, label=label, measure=lambda update: {"result": dict(cell.measure(update))})

    def _folder(self, name: str, content: Any) -> Path:
        return self.on.folder / "cells" / f"{name}-{digest(content)[:12]}"

"""The cells of an ablation: YourSelf with options changed, raw layers, calibration, cost, all on one network.

    OUT/cells/NAME-DIGEST/shots-N.json    one setting on one draw: a result, or the calibration of that draw
    OUT/cells/cost-DIGEST.json            what inference costs
    OUT/ablation.json, .md, .html         made from all of them

The digest names the options, so that every setting has a folder of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fscil import methods
from fscil.core.hardware import describe
from fscil.core.progress import Update
from fscil.core.storage import read_json
from fscil.evaluation.confidence import Setup, measure_confidence
from fscil.evaluation.cost import BATCH, inference_costs
from fscil.evaluation.identity import digest
from fscil.evaluation.protocol import prepare
from fscil.experiments.ablate.plan import FACTORS, STEPS, Changes, betas
from fscil.experiments.runner import Cell, NetworkRun
from fscil.methods import Method, YourSelf
from fscil.methods.raw_layers import RawLayers


class Study:
    """The cells of one network and one recipe."""

    def __init__(self, on: NetworkRun) -> None:
        self.on, self.config = on, on.config
        self.method = self.yourself({})
        self.method.start(seed=self.config.seed, depth=on.cache.backbone.depth, device=on.device)  # checks options
        self.blocks = self.method.blocks(on.cache.backbone.depth)

    def yourself(self, changes: Changes) -> YourSelf:
        """The recipe's YourSelf with these options changed."""
        options = {**self.config.options.get(YourSelf.name, {}), **changes}
        method = methods.make(YourSelf.name, options)
        assert isinstance(method, YourSelf)
        return method

    def cells(self, part: str) -> list[Cell]:
        draws = range(self.config.draws)
        if part == "calibration":
            return [*(self.calibration(draw) for draw in draws), self.cost()]
        wanted: list[Changes] = []
        if part == "ablation":
            wanted = [step.changes for step in STEPS if step.changes is not None]
        elif part == "layers":
            wanted = [{}]
        elif part == "sensitivity":
            wanted = [beta.scaled(factor) for beta in betas(self.method) for factor in FACTORS]
        found = [self.rectified(changes, draw) for changes in wanted for draw in draws]
        if part != "sensitivity":
            found += [self.raw(draw) for draw in draws]
        return found

    def measure(self, parts: Sequence[str]) -> None:
        """Fill the cells that are missing."""
        wanted = {cell.path: cell for part in parts for cell in self.cells(part)}
        missing = [cell for cell in wanted.values() if self.on.fresh or not self.on.done(cell)]
        if done := len(wanted) - len(missing):
            self.on.reporter.say(f"Measured before: {done} of {len(wanted)} cells")
        if missing:
            self.on.extract([self.method])
            self.on.fill(missing)

    def complete(self, part: str) -> bool:
        return all(cell.done for cell in self.cells(part))

    def seconds(self, parts: Iterable[str]) -> float:
        paths = {cell.path for part in parts for cell in self.cells(part)}
        return sum(read_json(path)["measuring_seconds"] for path in paths)

    def rectified(self, changes: Changes, draw: int) -> Cell:
        label = ", ".join(f"{name}={value:g}" for name, value in changes.items()) or "as in the recipe"
        return self._result("yourself", f"YourSelf, {label}, draw {draw}", lambda: self.yourself(changes), draw)

    def raw(self, draw: int) -> Cell:
        def make() -> RawLayers:
            return RawLayers(layers=self.blocks, scale=self.method.scale)

        return self._result("raw-layers", f"raw layers, draw {draw}", make, draw)

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
            sessions = [
                prepare(on.benchmark.session(index), self.method, on.cache, on.device, on.network)
                for index in range(on.benchmark.novel_sessions + 1)
            ]
            costs = inference_costs(on.cache.backbone, self.method, sessions, on.benchmark.exam(0).images)
            return {"hardware": hardware, "batch": BATCH, "costs": costs}

        path = self._folder("cost", [options, hardware]).with_suffix(".json")
        return Cell(path, "Cost of inference", on.inputs(0, "cost", options, hardware), measure)

    def _result(self, name: str, label: str, make: Callable[[], Method], draw: int) -> Cell:
        """A result inside a cell's file: what a changed setting gives is not a result of the run."""
        path = self._folder(name, make().options()) / f"shots-{draw}.json"
        cell = self.on.cell(make, draw, path)
        return replace(cell, label=label, measure=lambda update: {"result": dict(cell.measure(update))})

    def _folder(self, name: str, content: Any) -> Path:
        return self.on.folder / "cells" / f"{name}-{digest(content)[:12]}"

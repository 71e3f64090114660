"""Measures an ablation cell by cell. A cell (one setting on one draw) is a small file, so a killed study continues:

    OUT/cells/NAME-DIGEST/shots-N.json    one setting on one draw: a result, or the calibration of that draw
    OUT/cells/cost-DIGEST.json            what inference costs
    OUT/ablation.json, .md, .html         made from all of them

The digest names the network and the options, so that cells of another network or setting are never mixed in.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fscil import methods
from fscil.core.config import to_dict
from fscil.core.hardware import describe
from fscil.core.storage import read_json, write_json
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import prepare, run_method
from fscil.evaluation.writer import make_result
from fscil.experiments.ablate.confidence import Setup, measure_confidence
from fscil.experiments.ablate.cost import BATCH, inference_costs
from fscil.experiments.ablate.plan import FACTORS, STEPS, Changes, trades
from fscil.experiments.ablate.raw_layers import RawLayers
from fscil.experiments.run import Run
from fscil.methods import Method, YourSelf


@dataclass(frozen=True)
class Cell:
    """One measurement and the file that keeps it."""

    path: Path
    label: str
    measure: Callable[[], Mapping[str, Any]]


class Study:
    """The cells of one network and one recipe."""

    def __init__(self, run: Run, checkpoint: Path) -> None:
        self.run = run
        self.network = _sha256(checkpoint)
        self.cache: FeatureCache = run.cache()
        self.method = self.yourself({})
        self.method.start(seed=run.config.seed, depth=self.cache.backbone.depth, device=run.device)  # checks options
        self.blocks = self.method.blocks(self.cache.backbone.depth)

    def yourself(self, changes: Changes) -> YourSelf:
        """The recipe's YourSelf with these options changed."""
        options = {**self.run.config.options.get(YourSelf.name, {}), **changes}
        method = methods.make(YourSelf.name, options)
        assert isinstance(method, YourSelf)
        return method

    def cells(self, part: str) -> list[Cell]:
        draws = range(self.run.config.draws)
        if part == "calibration":
            return [*(self.calibration(draw) for draw in draws), self.cost()]
        wanted: list[Changes] = []
        if part == "ablation":
            wanted = [step.changes for step in STEPS if step.changes is not None]
        elif part == "layers":
            wanted = [{}]
        elif part == "sensitivity":
            wanted = [trade.scaled(factor) for trade in trades(self.method) for factor in FACTORS]
        found = [self.rectified(changes, draw) for changes in wanted for draw in draws]
        if part != "sensitivity":
            found += [self.raw(draw) for draw in draws]
        return found

    def measure(self, parts: Sequence[str], fresh: bool) -> None:
        """Fill the cells that are missing; all of them if `fresh`."""
        wanted = {cell.path: cell for part in parts for cell in self.cells(part)}
        missing = [cell for path, cell in wanted.items() if fresh or not path.exists()]
        if done := len(wanted) - len(missing):
            self.run.reporter.say(f"Measured before: {done} of {len(wanted)} cells")
        if not missing:
            return
        self._extract()
        with self.run.reporter.task("Measuring") as update:
            for number, cell in enumerate(missing):
                started = time.monotonic()
                measured = cell.measure()
                seconds = round(time.monotonic() - started, 3)
                write_json(cell.path, {"label": cell.label, "network": self.network, "seconds": seconds, **measured})
                update(number + 1, len(missing))

    def complete(self, part: str) -> bool:
        return all(cell.path.exists() for cell in self.cells(part))

    def seconds(self, parts: Iterable[str]) -> float:
        paths = {cell.path for part in parts for cell in self.cells(part)}
        return sum(read_json(path)["seconds"] for path in paths)

    def rectified(self, changes: Changes, draw: int) -> Cell:
        label = ", ".join(f"{name}={value:g}" for name, value in changes.items()) or "as in the recipe"
        return self._result("yourself", f"YourSelf, {label}, draw {draw}", lambda: self.yourself(changes), draw)

    def raw(self, draw: int) -> Cell:
        return self._result(
            "raw-layers",
            f"raw layers, draw {draw}",
            lambda: RawLayers(layers=self.blocks, scale=self.method.scale),
            draw,
        )

    def calibration(self, draw: int) -> Cell:
        run = self.run
        setup = Setup(
            benchmark=run.benchmark.draw(draw),
            cache=self.cache,
            make=lambda: self.yourself({}),
            seed=run.config.seed,
            device=run.device,
            network=run.train(),
        )
        folder = self._folder("calibration", self.method.options())
        return Cell(
            folder / f"shots-{draw}.json",
            f"calibration, draw {draw}",
            lambda: {"predictors": measure_confidence(setup)},
        )

    def cost(self) -> Cell:
        run, benchmark = self.run, self.run.benchmark
        hardware = describe(run.device)

        def measure() -> dict[str, Any]:
            sessions = [
                prepare(benchmark.session(index), self.method, self.cache, run.device, run.train())
                for index in range(benchmark.novel_sessions + 1)
            ]
            costs = inference_costs(self.cache.backbone, self.method, sessions, benchmark.exam(0).images)
            return {"hardware": hardware, "batch": BATCH, "costs": [to_dict(cost) for cost in costs]}

        path = self._folder("cost", [self.method.options(), hardware]).with_suffix(".json")
        return Cell(path, "cost of inference", measure)

    def _result(self, name: str, label: str, make: Callable[[], Method], draw: int) -> Cell:
        run = self.run

        def measure() -> dict[str, Any]:
            method, checkpoint = make(), run.train()
            outcome = run_method(
                method,
                run.benchmark.draw(draw),
                self.cache,
                seed=run.config.seed,
                device=run.device,
                network=checkpoint,
            )
            result = make_result(
                run.config,
                method,
                outcome,
                dataset=run.benchmark.name,
                shots_seed=draw,
                device=run.device,
                base=checkpoint.info,
            )
            return {"result": result}

        return Cell(self._folder(name, make().options()) / f"shots-{draw}.json", label, measure)

    def _folder(self, name: str, content: Any) -> Path:
        written = json.dumps([self.network, content], sort_keys=True)
        return self.run.out / "cells" / f"{name}-{hashlib.sha256(written.encode()).hexdigest()[:12]}"

    def _extract(self) -> None:
        """The features that every cell asks for, with progress of their own: on a CPU they may take the longest."""
        benchmark, total = self.run.benchmark, (self.run.benchmark.novel_sessions + 1) * (self.run.config.draws + 1)
        with self.run.reporter.task("Features") as update:
            for index in range(benchmark.novel_sessions + 1):
                self.cache.get(benchmark.exam(index).images, self.blocks)
                update(index + 1, total)
            done = benchmark.novel_sessions + 1
            for draw in range(self.run.config.draws):
                drawn = benchmark.draw(draw)
                for index in range(benchmark.novel_sessions + 1):
                    session = drawn.session(index)
                    assert session.images is not None
                    if index or not draw:  # the base session is the same in all draws
                        self.cache.get(session.images, self.blocks)
                    done += 1
                    update(done, total)


def _sha256(path: Path) -> str:
    path = path / "backbone.safetensors" if path.is_dir() else path
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

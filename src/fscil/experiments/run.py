"""The stages of a run, each leaving files that the next one reads:

    OUT/config.json                       the resolved config
    OUT/base/backbone.safetensors         base training (state.safetensors while it is under way)
    OUT/features/*.safetensors            features, by content
    OUT/METHOD/shots-N/result.json        one method on one draw of shots
    OUT/analysis.json                     accuracy by layer, t-SNE
    OUT/report.html

A stage whose files are there is not done again, so a killed run continues where it was.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fscil import methods
from fscil.backbones import check_block
from fscil.core.config import Config, to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import pick_device
from fscil.core.progress import Reporter
from fscil.core.storage import claim_folder, read_json, write_json
from fscil.data import Benchmark, load_benchmark
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import Outcome, prepare, run_method
from fscil.evaluation.writer import make_result
from fscil.experiments.layers import analyse
from fscil.pages.report.page import write_report
from fscil.results.result import load_results
from fscil.training.checkpoint import Checkpoint, load_classifier
from fscil.training.loop import same_training, train_base

# Keys that may differ between a run and its continuation: they change what is done next, not what was done.
_FREE_KEYS = ("draws", "methods", "options", "accelerator", "devices", "strategy")


@dataclass
class Run:
    """One output folder and the config that fills it."""

    config: Config
    out: Path
    reporter: Reporter

    @classmethod
    def open(
        cls, config: Config, out: Path, *, resume: bool = False, force: bool = False, reporter: Reporter | None = None
    ) -> Run:
        """Claim the folder; a folder of another config is refused."""
        _check_methods(config)
        if config.data.session_lists and config.draws > 1:
            raise InputError("data.session_lists fixes the shots, so more draws would repeat them; add --seeds 1.")
        device = pick_device(config.accelerator)
        out = Path(out)
        claim_folder(out, force=force, resume=resume)
        stored = out / "config.json"
        if resume and not force and stored.exists():
            _check_same(read_json(stored), to_dict(config), out)
        write_json(stored, to_dict(config))
        run = cls(config, out, reporter or Reporter(quiet=True))
        run.device, run.fresh = device, force
        return run

    def __post_init__(self) -> None:
        self.device = torch.device("cpu")
        self.fresh = False
        self._benchmark: Benchmark | None = None
        self._checkpoint: Checkpoint | None = None
        self._learned: dict[str, methods.Method] = {}  # after all sessions of draw 0, for the map of features

    @property
    def benchmark(self) -> Benchmark:
        if self._benchmark is None:
            self.reporter.say(f"Data: {self.config.data.name}")
            self._benchmark = load_benchmark(self.config.data)
        return self._benchmark

    def train(self) -> Checkpoint:
        """Base training, or the checkpoint that it left."""
        if self._checkpoint is not None:
            return self._checkpoint
        folder, fingerprint = self.out / "base", self.benchmark.fingerprint()
        done = folder / "backbone.safetensors"
        if done.exists() and not self.fresh:
            checkpoint = load_classifier(done, self.device)
            wanted = {"config": to_dict(self.config), "data": fingerprint}
            if same_training(checkpoint.info, wanted):
                self.reporter.say(f"Base training: done before, {done}")
                self._checkpoint = checkpoint
                return checkpoint
            raise InputError(
                f"{done} was trained with other settings or other data; "
                f"add --force to train again, or choose another --out."
            )
        with self.reporter.task("Base training") as update:
            train_base(
                self.benchmark.session(0),
                self.config,
                folder,
                fingerprint=fingerprint,
                resume=not self.fresh,
                progress=update,
            )
        self._checkpoint = load_classifier(done, self.device)
        return self._checkpoint

    def use_checkpoint(self, path: Path) -> Checkpoint:
        """Take a trained network instead of training one. It must have been trained on this base session."""
        checkpoint = load_classifier(path, self.device)
        if checkpoint.info["data"] != self.benchmark.fingerprint():
            raise InputError(
                f"{path} was trained on another base session than {self.config.data.name} with "
                f"{self.config.data.base} base classes gives; use the recipe it was trained with."
            )
        self._checkpoint = checkpoint
        return checkpoint

    def cache(self) -> FeatureCache:
        return FeatureCache(self.out / "features", self.train().backbone)

    def features(self) -> None:
        """Extract everything the methods will ask for."""
        cache = self.cache()
        wanted = [methods.make(name, self.config.options.get(name)) for name in self.config.methods]
        total, done = len(wanted) * (self.config.draws + 1), 0
        with self.reporter.task("Features") as update:
            for method in wanted:
                blocks = method.blocks(cache.backbone.depth)
                for index in range(self.benchmark.novel_sessions + 1):
                    cache.get(self.benchmark.exam(index).images, blocks)
                done += 1
                update(done, total)
                for draw in range(self.config.draws):
                    benchmark = self.benchmark.draw(draw)
                    for index in range(0 if draw == 0 else 1, benchmark.novel_sessions + 1):
                        prepare(benchmark.session(index), method, cache, torch.device("cpu"))
                    done += 1
                    update(done, total)

    def evaluate(self) -> list[Path]:
        """Every method on every draw; returns the result files."""
        cache = self.cache()
        return [
            self._evaluate_one(name, draw, cache) for name in self.config.methods for draw in range(self.config.draws)
        ]

    def result_path(self, name: str, draw: int) -> Path:
        return self.out / name / f"shots-{draw}" / "result.json"

    def _evaluate_one(self, name: str, draw: int, cache: FeatureCache) -> Path:
        path = self.result_path(name, draw)
        method = methods.make(name, self.config.options.get(name))
        if path.exists() and not self.fresh and self._is_done(path, method):
            self.reporter.say(f"{method.title}, draw {draw}: done before, {path}")
            return path
        result = make_result(
            self.config,
            method,
            self._learn(method, draw, cache),
            dataset=self.benchmark.name,
            shots_seed=draw,
            device=self.device,
            base=self.train().info,
        )
        write_json(path, result)
        return path

    def _learn(self, method: methods.Method, draw: int, cache: FeatureCache) -> Outcome:
        """Take a fresh method through all sessions; the one of draw 0 is kept for the report's map of features."""
        with self.reporter.task(f"{method.title}, draw {draw}") as update:
            outcome = run_method(
                method,
                self.benchmark.draw(draw),
                cache,
                seed=self.config.seed,
                device=self.device,
                network=self.train(),
                progress=update,
            )
        if draw == 0:
            self._learned[method.name] = method
        return outcome

    def _is_done(self, path: Path, method: methods.Method) -> bool:
        options = to_dict(dataclasses.replace(self.config, options={method.name: method.options()}))["options"]
        return read_json(path)["config"]["options"] == options

    def analysis(self) -> dict[str, Any]:
        """Accuracy by layer and t-SNE of the features, for the report."""
        path = self.out / "analysis.json"
        name = methods.YourSelf.name
        if name in self.config.methods and name not in self._learned:  # a continued run has its results, not the method
            self._learn(methods.make(name, self.config.options.get(name)), 0, self.cache())
        with self.reporter.task("Layers and t-SNE") as update:
            document = analyse(
                self.config,
                self.benchmark,
                self.cache(),
                self.device,
                [
                    read_json(self.result_path(each, draw))
                    for each in self.config.methods
                    for draw in range(self.config.draws)
                ],
                self._learned.get(name),
                update,
            )
        write_json(path, document)
        return document

    def report(self) -> Path:
        path = self.out / "report.html"
        results = load_results(
            [self.result_path(name, draw) for name in self.config.methods for draw in range(self.config.draws)]
        )
        write_report(results, self.analysis(), path)
        return path

    def all(self) -> Path:
        self.train()
        self.evaluate()
        return self.report()


def _check_methods(config: Config) -> None:
    """Refuse a wrong method or option before training, not after."""
    for name in (*config.methods, *config.options):
        method = methods.make(name, config.options.get(name))
        if method.blocks(config.backbone.depth) and config.backbone.kind != "vit":
            raise InputError(f"{method.title} needs intermediate layers, which a {config.backbone.kind} does not give.")
        if not config.backbone.name:  # a named network tells its depth only once it is built
            depth = config.backbone.depth
            method.start(seed=0, depth=depth, device=torch.device("cpu"))
            for block in method.blocks(depth):
                check_block(block, depth)


def _check_same(stored: dict[str, Any], wanted: dict[str, Any], out: Path) -> None:
    for key, value in wanted.items():
        if key not in _FREE_KEYS and stored.get(key) != value:
            name = _first_difference(key, stored.get(key), value)
            raise InputError(
                f"{out} was made with another '{name}'; choose another --out, or add --force to start over there."
            )


def _first_difference(key: str, stored: Any, wanted: Any) -> str:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for inner in wanted:
            if stored.get(inner) != wanted[inner]:
                return _first_difference(f"{key}.{inner}", stored.get(inner), wanted[inner])
    return key

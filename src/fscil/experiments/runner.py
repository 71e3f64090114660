"""The one runner: a network, the cells that are measured on it, and a file for each of them.

A cell is one measurement, mostly one method on one draw of the shots, which leaves a result.json. Its file names all
that it was made from by one hash, `inputs`: weights, images, options, seeds. So 'is this done already?' has one answer
for run, tune, bench and ablate: the file is there, whole, and has these inputs. What was killed continues with the
cells that are missing.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from fscil.core.config import LOOKS, BackboneConfig, Config, DataConfig, build, to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import describe, forget_peak, pick_device, settle
from fscil.core.progress import Reporter, Update
from fscil.core.storage import read_json, write_sealed
from fscil.data import Benchmark, load_benchmark
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.fits import BaseFits, DrawState
from fscil.evaluation.identity import data_sha256, digest, session_sha256, weights_sha256
from fscil.evaluation.protocol import Examiner, prepare, run_method
from fscil.evaluation.writer import make_result
from fscil.experiments.journal import Journal, accuracies
from fscil.methods import Method
from fscil.methods import make as make_method
from fscil.training.checkpoint import FIRST, LAST, STATE, Checkpoint, load_classifier, same_training
from fscil.training.loop import train_base


@dataclass(frozen=True)
class Cell:
    """One measurement and the file that keeps it."""

    path: Path
    label: str
    inputs: str  # hash of all that it is made from
    measure: Callable[[Update], Mapping[str, Any]]

    @property
    def done(self) -> bool:
        try:
            return bool(read_json(self.path)["inputs"] == self.inputs)
        except (InputError, KeyError, TypeError):
            return False  # absent, damaged, or of a version that did not name its inputs


@dataclass(frozen=True)
class NetworkPlace:
    """One base training and the folder with all that comes of it: what another process needs to open it."""

    config: Config
    folder: Path
    checkpoint: Path | None = None  # a network that is there already
    sessions: Callable[[Config, Reporter], Benchmark] | None = None  # instead of the config's data

    def __hash__(self) -> int:
        return hash(self.folder)  # a config holds tables, which have none

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def trained(self) -> Path:
        """The file that is there once it is."""
        return self.checkpoint or self.folder / "base" / LAST

    def open(self, reporter: Reporter) -> "NetworkRun":
        benchmark = self.sessions(self.config, reporter) if self.sessions else None
        return NetworkRun(self.config, self.folder, reporter, checkpoint=self.checkpoint, benchmark=benchmark)


class NetworkRun:
    """One network with its data, opened once for all the cells that are measured on it.

    FOLDER/base/backbone.safetensors   base training (state.safetensors while it is under way; first.safetensors
                                       after the first of two stages)
    FOLDER/features/*.safetensors      features, by content
    FOLDER/fitted/METHOD.safetensors   what a method learned of the base session, until its last draw is measured
    FOLDER/fitted/METHOD-under-way.safetensors   what one that tunes has learned in the draw that is under way
    FOLDER/log                         numbers of the training and of the sessions (`experiments.journal`)
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        checkpoint: Path | None = None,  # a trained network instead of training one
        benchmark: Benchmark | None = None,  # instead of the config's data
        fresh: bool = False,  # train and measure again what is there already
    ) -> None:
        self.config, self.folder, self.reporter, self.fresh = config, Path(folder), reporter, fresh
        settle(config)
        self.checkpoint = checkpoint or self.folder / "base" / "backbone.safetensors"
        self._given = checkpoint is not None
        self._benchmark = benchmark
        self.journal = Journal(self.folder / "log", config.log)
        if fresh:
            shutil.rmtree(self.folder / "fitted", ignore_errors=True)
            self.journal.clear()
        self._data: dict[int, str] = {}  # hash of every draw's images
        self._differences: set[str] = set()  # what was said of cells that were measured elsewhere

    @cached_property
    def device(self) -> torch.device:
        """Of this machine, which need not be one that measures."""
        return pick_device(self.config.accelerator)

    @cached_property
    def benchmark(self) -> Benchmark:
        return self._benchmark or load_data(self.config.data, self.reporter)

    @cached_property
    def network(self) -> Checkpoint:
        """The trained network, which looks at images as this config says."""
        network, wanted = self._trained(), self.config.backbone
        network.backbone.test_zoom, network.backbone.test_mirror = wanted.test_zoom, wanted.test_mirror
        return network

    def _trained(self) -> Checkpoint:
        """Given, there already, or trained now."""
        fingerprint = self.benchmark.fingerprint()
        if self._given:
            network = load_classifier(self.checkpoint, self.device)
            check_given(network, self.checkpoint, self.config, fingerprint)
            return network
        if self.checkpoint.exists() and not self.fresh:
            network = load_classifier(self.checkpoint, self.device)
            if not same_training(network.info, {"config": to_dict(self.config), "data": fingerprint}):
                raise InputError(
                    f"{self.checkpoint} was trained with other settings or other data; "
                    f"add --force to train again, or choose another --out."
                )
            self.reporter.say(f"Base training: done before, {self.checkpoint}")
            return network
        with self.journal.part("base", to_dict(self.config)) as record, self.reporter.task("Base training") as update:
            train_base(
                self.benchmark.session(0),
                self.config,
                self.checkpoint.parent,
                fingerprint=fingerprint,
                resume=not self.fresh,
                progress=update,
                record=record,
            )
        return load_classifier(self.checkpoint, self.device)

    @cached_property
    def weights(self) -> str:
        """Hash of the network's weights."""
        if not self._given:
            _ = self.network  # trained by now, or found to be the right one
        return weights_sha256(self.checkpoint)

    @cached_property
    def cache(self) -> FeatureCache:
        """Features of the layers that any method of this config will ask for are made in one pass."""
        backbone = self.network.backbone
        made = [make_method(name, self.config.options.get(name)) for name in self.config.methods]
        ahead = [block for method in made if "tunes" not in method.needs for block in method.blocks(backbone.depth)]
        return FeatureCache(self.folder / "features", backbone, ahead)

    @cached_property
    def fits(self) -> BaseFits:
        """All besides the method that its base session was learned from, the machine included: last digits count."""
        content = [self._shown, session_sha256(self.benchmark.session(0)), describe(self.device)]
        return BaseFits(self.folder / "fitted", digest(content))

    @property
    def _shown(self) -> list[Any]:
        """The network, and how it looks at images."""
        return [self.weights, [to_dict(self.config.backbone)[key] for key in LOOKS]]

    def data(self, draw: int) -> str:
        """Hash of all images of one draw."""
        if draw not in self._data:
            self._data[draw] = data_sha256(self.benchmark.draw(draw))
        return self._data[draw]

    def inputs(self, draw: int, *content: Any) -> str:
        return digest([*self._shown, self.data(draw), draw, self.config.seed, *content])

    def cell(
        self,
        make: Callable[[], Method],
        draw: int,
        path: Path,
        *,
        config: Config | None = None,  # of the method's recipe, where that is not the network's
        keep: Callable[[Method], None] = lambda method: None,  # is given the method after its last session
    ) -> Cell:
        """One method on one draw: a result.json."""
        method = make()

        def measure(update: Update) -> dict[str, Any]:
            learner = make()
            forget_peak(self.device)
            outcome = run_method(
                learner,
                self.benchmark.draw(draw),
                self.cache,
                seed=self.config.seed,
                device=self.device,
                network=self.network,
                progress=update,
                fits=self.fits if self.config.draws > 1 else None,
                under_way=(under_way := DrawState(self.fits.folder, digest([self.fits.made_from, self.data(draw)]))),
            )
            under_way.forget(learner)
            if draw >= self.config.draws - 1:  # nobody asks again
                self.fits.forget(learner)
            keep(learner)
            return make_result(
                config or self.config,
                learner,
                outcome,
                dataset=self.benchmark.name,
                shots_seed=draw,
                device=self.device,
                network=self.network,
                weights=self.weights,
                data=self.data(draw),
            )

        label = f"{method.title}, draw {draw}"
        return Cell(path, label, self.inputs(draw, method.name, method.options()), measure)

    def clear(self) -> None:
        """Delete what is made anew: the network, unless it was given, and what methods learned with it."""
        shutil.rmtree(self.folder / "fitted", ignore_errors=True)
        for file in [] if self._given else (FIRST, LAST, STATE):
            (self.folder / "base" / file).unlink(missing_ok=True)

    def done(self, cell: Cell) -> bool:
        """Whether it was measured before; says once how that differs from how it would be measured now."""
        if not cell.done:
            return False
        then, now = read_json(cell.path).get("hardware") or {}, describe(self.device)
        found = ", ".join(f"{key} {then[key]}, now {now[key]}" for key in now if then.get(key, now[key]) != now[key])
        if found and found not in self._differences:
            self._differences.add(found)
            self.reporter.say(
                f"{cell.label}, and maybe more, was measured otherwise ({found}): accuracies may differ from what this "
                f"run would give; --force measures them again."
            )
        return True

    def fill(self, cells: Sequence[Cell]) -> None:
        """Measure what is missing (everything if `fresh`)."""
        settle(self.config)  # another network of this process may take another number of threads
        for cell in cells:
            if not self.fresh and self.done(cell):
                self.reporter.say(f"{cell.label}: done before, {cell.path}")
                continue
            if not self.fresh and cell.path.exists():
                self.reporter.say(
                    f"{cell.label}: {cell.path} was made from something else (network, images, settings or version of "
                    f"fscil), or is damaged; it is made anew."
                )
            started = time.monotonic()
            with self.reporter.task(cell.label) as update:
                document = cell.measure(update)
            spent = round(time.monotonic() - started, 3)
            if "matrix" in document:
                with self.journal.part(self._part(cell), document["config"]) as record:
                    for session, values in enumerate(accuracies(document)):
                        record(session, values)
            made = {"inputs": cell.inputs, "measuring_seconds": spent, "hardware": describe(self.device)}
            write_sealed(cell.path, {**made, **document})

    def _part(self, cell: Cell) -> str:
        """As the folder is called that its file is in."""
        inside = cell.path.is_relative_to(self.folder)
        name = cell.path.relative_to(self.folder).with_suffix("").as_posix() if inside else cell.path.stem
        return name.removesuffix("/result")

    def extract(self, wanted: Sequence[Method]) -> None:
        """All features that these methods will ask for, with progress of their own: on a CPU they may take longest."""
        settle(self.config)
        draws, sessions = range(self.config.draws), range(self.benchmark.novel_sessions + 1)
        total, done = len(wanted) * (1 + len(draws)), 0
        with self.reporter.task("Features") as update:
            for method in wanted:
                Examiner(self.benchmark, self.cache, method, torch.device("cpu"), self.network)
                update(done := done + 1, total)
                for draw in draws:
                    benchmark = self.benchmark.draw(draw)
                    for index in sessions[0 if draw == 0 else 1 :]:  # the base session is the same in all draws
                        prepare(benchmark.session(index), method, self.cache, torch.device("cpu"), self.network)
                    update(done := done + 1, total)


def check_given(network: Checkpoint, path: Path, config: Config, fingerprint: str) -> None:
    """Refuse a network of other images, or of another shape: a setting that it does not have would be written into
    results and change nothing."""
    if network.info["data"] != fingerprint:
        raise InputError(
            f"{path} was trained on another base session than {config.data.name} with "
            f"{config.data.base} base classes gives; use the recipe it was trained with."
        )
    stored, wanted = network.info["config"]["backbone"], to_dict(config.backbone)
    for key, value in to_dict(build(BackboneConfig, stored)).items():
        if key not in (*LOOKS, "pretrained") and wanted[key] != value:
            raise InputError(
                f"{path} has backbone.{key}={value}, and the settings say {wanted[key]}, which would "
                f"change nothing; use the recipe it was trained with."
            )


@lru_cache(maxsize=2)
def load_data(data: DataConfig, reporter: Reporter) -> Benchmark:
    """Networks of one bench share their data (and their reporter)."""
    reporter.say(f"Data: {data.name}")
    benchmark = load_benchmark(data, reporter=reporter)
    base, total, novel = benchmark.base, sum(benchmark.classes), benchmark.novel_sessions
    reporter.say(
        f"{base} base classes, then {novel} {'session' if novel == 1 else 'sessions'} of {benchmark.way}. Who guesses "
        f"names {100 / base:.1f} % of the test images in the base session and {100 / total:.1f} % of them at the end."
    )
    return benchmark

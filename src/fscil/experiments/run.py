"""A run: one recipe, from its data to what a report shows. Every stage leaves files that the next one reads:

    OUT/config.json                       the resolved config
    OUT/base/backbone.safetensors         base training (state.safetensors while it is under way; first.safetensors
                                          after the first of two stages)
    OUT/features/*.safetensors            features, by content
    OUT/METHOD/shots-N/result.json        one method on one draw of shots
    OUT/analysis.json                     accuracy by layer, t-SNE
    OUT/pictures.json                     samples of the classes, examples of mistakes
    OUT/data_notes.json                   classes that no session has, pictures that are there twice

A stage whose files are there is not done again, so a killed run continues where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fscil import methods
from fscil.core.config import Config, build, to_dict
from fscil.core.errors import InputError
from fscil.core.progress import Reporter, Update
from fscil.core.storage import claiming, read_json, write_json
from fscil.evaluation.identity import digest
from fscil.experiments.layers import analyse
from fscil.experiments.pictures import picture_file
from fscil.experiments.preflight import data_notes, preflight
from fscil.experiments.runner import Cell, NetworkRun, load_data
from fscil.methods import Method, YourSelf
from fscil.results.data_notes import parse_data_notes
from fscil.results.result import parse_result
from fscil.training.checkpoint import LAST, Checkpoint
from fscil.training.loop import train_base

# Keys that may differ between a run and its continuation: they change what is done next, not what was done.
_FREE_KEYS = ("draws", "methods", "options", "accelerator", "devices", "strategy", "threads", "log")


class Run:
    """One output folder and the config that fills it."""

    def __init__(self, config: Config, out: Path, network: NetworkRun) -> None:
        self.config, self.out, self.on = config, out, network
        self._learned: dict[str, Method] = {}  # after all sessions of draw 0, for the map of features

    @classmethod
    def open(
        cls,
        config: Config,
        out: Path,
        *,
        resume: bool = False,
        force: bool = False,
        checkpoint: Path | None = None,  # a trained network instead of training one
        reporter: Reporter | None = None,
    ) -> Run:
        """Claim the folder; a folder of another config is refused. Whatever is refused leaves no folder behind."""
        out, reporter = Path(out), reporter or Reporter(quiet=True)
        stored = out / "config.json"
        with claiming(out, force=force, resume=resume):
            if resume and not force and stored.exists():
                _check_same(read_json(stored), to_dict(config), out)
            trained = (out / "base" / LAST).exists() and not force
            benchmark = preflight(config, reporter, checkpoint, trained=trained)
            write_json(stored, to_dict(config))
        network = NetworkRun(config, out, reporter, checkpoint=checkpoint, benchmark=benchmark, fresh=force)
        return cls(config, out, network)

    def train(self) -> Checkpoint:
        """Base training, or the network that is there already."""
        return self.on.network

    def features(self) -> None:
        """Extract everything the methods will ask for."""
        self.on.extract([self._make(name) for name in self.config.methods])

    def evaluate(self) -> list[Path]:
        """Every method on every draw; returns the result files."""
        cells = [self._cell(name, draw) for name in self.config.methods for draw in range(self.config.draws)]
        self.on.fill(cells)
        return [cell.path for cell in cells]

    def result_paths(self) -> list[Path]:
        """Where the results are, or will be."""
        draws = range(self.config.draws)
        return [self.out / name / f"shots-{draw}" / "result.json" for name in self.config.methods for draw in draws]

    def analysis(self) -> dict[str, Any]:
        """Accuracy by layer and t-SNE of the features, for the report."""
        results = [read_json(path) for path in self.result_paths()]
        cell = Cell(
            self.out / "analysis.json",
            "Layers and t-SNE",
            self.on.inputs(0, "layers and maps", self._made_from(results)),
            lambda update: self._analyse(results, update),
        )
        self.on.fill([cell])
        document: dict[str, Any] = read_json(cell.path)
        return document

    def pictures(self) -> dict[str, Any]:
        """Samples of the classes and examples of mistakes, for the report."""
        documents = [read_json(path) for path in self.result_paths()]
        cell = Cell(
            self.out / "pictures.json",
            "Pictures",
            self.on.inputs(0, "pictures", self._made_from(documents)),
            lambda update: picture_file(self.on.benchmark.draw(0), list(map(parse_result, documents)), update),
        )
        self.on.fill([cell])
        document: dict[str, Any] = read_json(cell.path)
        return document

    def data_notes(self) -> dict[str, Any]:
        """What a reader should know of the images, for the report; said here too."""
        cell = Cell(
            self.out / "data_notes.json",
            "Images that are there twice",
            self.on.inputs(0, "data notes", list(self.on.benchmark.left_over)),
            lambda update: data_notes(self.on.benchmark).document(),
        )
        self.on.fill([cell])
        document: dict[str, Any] = read_json(cell.path)
        for sentence in parse_data_notes(document).sentences():
            self.on.reporter.say(sentence)
        return document

    def all(self) -> list[Path]:
        """Every stage; returns the result files."""
        paths = self.evaluate()
        self.analysis()
        self.pictures()
        self.data_notes()
        return paths

    @staticmethod
    def help_training(config: Config, out: Path, *, force: bool) -> None:
        """As one of the processes that torchrun started beside the first, which has the folder and writes into it."""
        if force or not (out / "base" / LAST).exists():
            benchmark = load_data(config.data, Reporter(quiet=True))
            fingerprint = benchmark.fingerprint()
            train_base(benchmark.session(0), config, out / "base", fingerprint=fingerprint, resume=not force)

    @staticmethod
    def _made_from(documents: list[dict[str, Any]]) -> str:
        return digest([[document["inputs"], document["method"]] for document in documents])

    def _make(self, name: str) -> Method:
        return methods.make(name, self.config.options.get(name))

    def _cell(self, name: str, draw: int) -> Cell:
        def keep(method: Method) -> None:
            if draw == 0:
                self._learned[name] = method

        path = self.out / name / f"shots-{draw}" / "result.json"
        return self.on.cell(lambda: self._make(name), draw, path, keep=keep)

    def _analyse(self, results: list[dict[str, Any]], update: Update) -> Mapping[str, Any]:
        name = YourSelf.name
        if name in self.config.methods and name not in self._learned:  # its results are there, the method is not
            self._cell(name, 0).measure(lambda done, total: None)
        return analyse(self.on, results, self._learned.get(name), update)


def _check_same(stored: Any, wanted: dict[str, Any], out: Path) -> None:
    if not isinstance(stored, dict):
        raise InputError(f"{out / 'config.json'} holds no config; add --force to start over, or choose another --out.")
    stored = to_dict(build(Config, stored))  # a key that came later had its default
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

"""The data sets by name. A data set's module is imported when it is loaded: `fscil.data.NAME.load(...)`."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from fscil.core.config import DataConfig
from fscil.core.errors import InputError, nearest
from fscil.core.progress import Reporter

if TYPE_CHECKING:  # the list of data sets should not wait for torch
    from fscil.data.benchmark import Benchmark
    from fscil.data.dataset import Dataset


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """One data set: what it is, how many images, where it comes from, and what of it was seen to work here."""

    name: str
    summary: str
    images: str  # how many, in both halves
    base: int = 60  # classes of the base session, as a recipe should set it
    way: int = 5
    sessions: int = 0  # new ones; 0: as many as the classes allow
    shot: int = 5
    size: str = ""  # pixels that images are worked with; empty: as they are
    shots: Sequence[str] = ()  # what data.shots may be, besides drawn by seed
    source: str  # where it comes from; whom to cite
    licence: str
    get: str  # what to do to have it
    path: str = ""  # what data.path must be; empty: not needed
    verified: str  # what was seen here, and what was not


def _specs() -> dict[str, DatasetSpec]:
    entries = tomllib.loads((resources.files("fscil.data") / "datasets.toml").read_text(encoding="utf-8"))
    return {name: DatasetSpec(name=name, **entry) for name, entry in entries.items()}


REGISTRY = _specs()


def datasets() -> list[dict[str, Any]]:
    """What there is, as plain values for a table or JSON."""
    return [{**asdict(spec), "shots": list(spec.shots)} for spec in REGISTRY.values()]


def find_spec(name: str) -> DatasetSpec:
    if name not in REGISTRY:
        raise InputError(f"There is no data set '{name}'; {nearest(name, REGISTRY)}")
    return REGISTRY[name]


def load_dataset(config: DataConfig, reporter: Reporter | None = None) -> Dataset:
    """All images of the data set that `config` names. What takes long is reported, on stderr unless told otherwise.

    Examples:
        >>> from fscil import load_config
        >>> digits = load_dataset(load_config("digits").data)
        >>> digits.train.images.shape[1:], str(digits.train.images.dtype), len(digits.class_names)
        ((8, 8, 3), 'uint8', 10)
    """
    spec = find_spec(config.name)
    if spec.path and not config.path:
        raise InputError(f"Data set {spec.name} needs data.path; set it to {spec.path}.")
    dataset: Dataset = importlib.import_module(f"fscil.data.{spec.name}").load(config, reporter or Reporter())
    return dataset


def load_benchmark(config: DataConfig, shots_seed: int = 0, reporter: Reporter | None = None) -> Benchmark:
    """The data set cut into sessions; `shots_seed` draws the images of the new classes.

    Examples:
        >>> import fscil
        >>> benchmark = load_benchmark(fscil.load_config("digits").data)
        >>> benchmark.classes, benchmark.class_names[:3]
        ((6, 2, 2), ('0', '1', '2'))
        >>> len(benchmark.session(0)), len(benchmark.session(1))  # all images of six classes; five of each new one
        (758, 10)
    """
    from fscil.data.benchmark import Benchmark

    return Benchmark(load_dataset(config, reporter), config, shots_seed)

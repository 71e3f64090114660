"""The data sets by name. A data set's module is imported when it is loaded: `fscil.data.NAME.load(config)`."""

from __future__ import annotations

import importlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from fscil.core.config import DataConfig
from fscil.core.errors import InputError, nearest

if TYPE_CHECKING:  # the list of data sets should not wait for torch
    from fscil.data.benchmark import Benchmark
    from fscil.data.dataset import Dataset


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """One data set: what it is, how it is usually cut into sessions, where it comes from."""

    name: str
    summary: str
    base: int = 60  # classes of the base session, as a recipe should set it
    way: int = 5
    shot: int = 5
    source: str  # origin and terms of use
    path: str = ""  # what data.path must be; empty: not needed


SPECS = (
    DatasetSpec(
        name="glyphs",
        summary="100 characters of several scripts; test images use fonts that training never sees",
        source="rendered on first use from matplotlib's DejaVu and STIX fonts (free licences); nothing to download",
    ),
    DatasetSpec(
        name="digits",
        summary="1,797 handwritten digits of 8x8 pixels, for tests and first steps",
        base=6,
        way=2,
        source="scikit-learn's copy of the UCI optical digits (CC BY 4.0); nothing to download",
    ),
    DatasetSpec(
        name="cifar100",
        summary="60,000 photographs of 100 classes, 32x32 pixels",
        source="www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky 2009; cite it); data.download=true fetches it",
    ),
    DatasetSpec(
        name="npz",
        summary="your own arrays in one file",
        source="yours",
        path="an .npz file with train_images, train_labels, test_images, test_labels, class_names",
    ),
    DatasetSpec(
        name="folder",
        summary="your own images, a folder per class",
        source="yours",
        path="a folder with train/CLASS and test/CLASS folders of images, or with CLASS folders to split by seed",
    ),
)
REGISTRY = {spec.name: spec for spec in SPECS}


def datasets() -> list[dict[str, str | int]]:
    """What there is, as plain values for a table or JSON."""
    return [asdict(spec) for spec in SPECS]


def load_dataset(config: DataConfig) -> Dataset:
    """All images of the data set that `config` names."""
    spec = REGISTRY.get(config.name)
    if spec is None:
        raise InputError(f"There is no data set '{config.name}'; {nearest(config.name, REGISTRY)}")
    if spec.path and not config.path:
        raise InputError(f"Data set {spec.name} needs data.path; set it to {spec.path}.")
    return importlib.import_module(f"fscil.data.{spec.name}").load(config)


def load_benchmark(config: DataConfig, shots_seed: int = 0) -> Benchmark:
    """The data set cut into sessions; the published shots where `config` has a folder of them."""
    from fscil.data.benchmark import Benchmark

    if config.session_lists and config.name != "cifar100":
        raise InputError(f"data.session_lists belong to cifar100, not to {config.name}; leave the key empty.")
    dataset = load_dataset(config)
    if not config.session_lists:
        return Benchmark(dataset, config, shots_seed)
    from fscil.data.cifar100 import session_lists

    Benchmark(dataset, config)  # refuses a protocol that does not fit, before the lists are read by it
    return Benchmark(dataset, config, shots_seed, session_lists(config, dataset))

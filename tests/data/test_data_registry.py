"""The data sets by name."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

from data_samples import refusal

import fscil.data
from fscil.core import config
from fscil.core.config import DataConfig
from fscil.data import datasets, load_benchmark, load_dataset, session_lists, stored_shots
from fscil.data.npz import ARRAYS
from fscil.data.registry import REGISTRY

NAMES = ["cifar100", "cub200", "digits", "folder", "glyphs", "miniimagenet", "npz", "omniglot", "tinyimagenet"]


def test_every_data_set_has_a_loader_and_is_described() -> None:
    assert sorted(REGISTRY) == NAMES
    for name, spec in REGISTRY.items():
        assert callable(importlib.import_module(f"fscil.data.{name}").load)
        assert all((spec.summary, spec.images, spec.source, spec.licence, spec.get, spec.verified)), name
        assert name.isalnum()  # a recipe's name is DATA_METHOD
    assert DataConfig().name in REGISTRY
    assert all(name in REGISTRY["npz"].path for name in ARRAYS)


def test_the_list_is_plain() -> None:
    rows = datasets()
    assert json.loads(json.dumps(rows)) == rows
    assert {row["name"] for row in rows} == set(REGISTRY)
    for row in rows:
        assert row["summary"]
        assert row["source"]
        assert "\n" not in f"{row}"


def test_an_unknown_name() -> None:
    refusal(lambda: load_dataset(DataConfig(name="glyph")), "no data set 'glyph'", "did you mean 'glyphs'", "cifar100")
    refusal(lambda: load_benchmark(DataConfig(name="mnist")), "no data set 'mnist'", "Valid: cifar100, cub200")


def test_usual_protocols_fit() -> None:
    spec = REGISTRY["digits"]
    data = DataConfig(name="digits", base=spec.base, way=spec.way, shot=spec.shot)
    assert load_benchmark(data, shots_seed=4).classes == (6, 2, 2)
    assert load_benchmark(data, shots_seed=4).shots_seed == 4


def test_public_names() -> None:
    for name in fscil.data.__all__:
        assert hasattr(fscil.data, name)


def test_slow_libraries_are_imported_only_when_needed() -> None:
    """`fscil datasets` and `fscil --help` should not wait for them."""
    slow = ("torch", "torchvision", "sklearn", "scipy", "timm")
    code = f"import sys, fscil.data; fscil.data.datasets(); print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_shots_that_are_promised_are_there() -> None:
    for name, spec in REGISTRY.items():
        assert ("published" in spec.shots) == (name in session_lists.PUBLISHED)
        assert ("stored" in spec.shots) == (name == "cifar100")
    assert stored_shots.load("cifar100")


def test_recipes_cut_as_the_list_says() -> None:
    for name, spec in REGISTRY.items():
        if name in config.recipes() and name not in ("folder", "npz"):
            data = config.load(name).data
            assert (data.name, data.base, data.way, data.shot, data.sessions) == (
                *(name, spec.base, spec.way, spec.shot, spec.sessions),
            )

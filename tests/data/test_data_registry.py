"""The data sets by name."""

from __future__ import annotations

import json
import subprocess
import sys

from data_samples import refusal

import fscil.data
from fscil.core.config import DataConfig
from fscil.data import datasets, load_benchmark, load_dataset
from fscil.data.npz import ARRAYS
from fscil.data.registry import REGISTRY, SPECS


def test_every_name_in_the_configs_comment_is_registered() -> None:
    assert sorted(REGISTRY) == ["cifar100", "digits", "folder", "glyphs", "npz"]
    assert len(SPECS) == len(REGISTRY)
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
    refusal(lambda: load_benchmark(DataConfig(name="mnist")), "no data set 'mnist'", "Valid: cifar100, digits")


def test_usual_protocols_fit() -> None:
    spec = REGISTRY["digits"]
    config = DataConfig(name="digits", base=spec.base, way=spec.way, shot=spec.shot)
    assert load_benchmark(config, shots_seed=4).classes == (6, 2, 2)
    assert load_benchmark(config, shots_seed=4).shots_seed == 4


def test_public_names() -> None:
    for name in fscil.data.__all__:
        assert hasattr(fscil.data, name)


def test_slow_libraries_are_imported_only_when_needed() -> None:
    """`fscil datasets` and `fscil --help` should not wait for them."""
    slow = ("torch", "torchvision", "sklearn", "scipy", "timm")
    code = f"import sys, fscil.data; fscil.data.datasets(); print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

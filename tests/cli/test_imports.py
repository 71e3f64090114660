"""A command loads what it needs and nothing else: most of what a user waits for is the loading.

By what is loaded in a fresh process, and not by a clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fscil.core.weights_packages import LITE
from fscil.experiments import catalogue
from fscil.teach import Learner

# Each takes from a tenth of a second (matplotlib) to seconds (torch, timm, and torch._dynamo, which torchvision loads).
Loaded = Callable[..., list[str]]
SLOW = (
    "torch",
    "torch._dynamo",
    "torchvision",
    "timm",
    "lightning",
    "scipy",
    "scipy.optimize",
    "sklearn",
    "matplotlib",
    "onnx",
    "fastapi",
    "fscil.methods",
)
PROBE = f"""
import atexit, json, pathlib, sys
loaded = lambda: print("loaded", json.dumps([name for name in {SLOW} if name in sys.modules]), file=sys.stderr)
atexit.register(loaded)
import fscil.experiments.catalogue as catalogue
catalogue.STORED = pathlib.Path(sys.argv.pop(1))
from fscil.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` would write now; whether it did is asked in tests/pages/test_results_page.py."""
    path = tmp_path_factory.mktemp("imports") / "catalogue.json"
    path.write_text(catalogue.as_text(), encoding="utf-8")
    return path


@pytest.fixture
def loaded_by(stored: Path) -> Loaded:
    return partial(_loaded_by, stored)


def _loaded_by(stored: Path, *arguments: object) -> list[str]:
    words = [sys.executable, "-c", PROBE, *map(str, [stored, *arguments])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    found: list[str] = json.loads(done.stderr.rpartition("loaded ")[2])
    return found


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imports") / "matrix.csv"
    path.write_text("85,,\n80,50,\n75,45,40\n")
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("teach", "--help"),
        ("methods",),
        ("methods", "yourself"),
        ("datasets",),
        ("metrics", "MATRIX", "--classes", "6,2,2"),
        ("paper", "tables"),
    ],
    ids=" ".join,
)
def test_what_only_shows_something_loads_nothing_slow(
    arguments: tuple[str, ...], matrix: Path, loaded_by: Loaded
) -> None:
    given = [matrix if argument == "MATRIX" else argument for argument in arguments]
    assert loaded_by(*given) == []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imports") / "project"
    random = np.random.default_rng(0)
    with Learner.create(folder) as learner:
        for name in ("a", "b"):
            images = [Image.fromarray(random.integers(0, 256, (32, 32, 3), dtype=np.uint8)) for _ in range(3)]
            learner.learn(name, images)
    images[0].save(folder.parent / "new.png")
    return folder


def test_a_prediction_loads_its_network_and_no_other(project: Path, loaded_by: Loaded) -> None:
    found = loaded_by("predict", project, project.parent / "new.png")
    assert set(found) <= {"torch", "scipy"}  # scipy solves


@pytest.mark.skipif(not LITE[0].installed(), reason="needs fscil[photos]")
def test_photographs_are_known_without_timm(tmp_path: Path, project: Path, loaded_by: Loaded) -> None:
    """It brings torchvision and torch._dynamo: twice the time of torch alone."""
    assert set(loaded_by("teach", "init", tmp_path / "p", "--encoder", "photos")) <= {"torch", "scipy"}


def test_a_project_is_listed_without_a_network(project: Path, loaded_by: Loaded) -> None:
    assert loaded_by("teach", "list", project) == []
    assert loaded_by("teach", "history", project) == []


def test_a_small_network_is_trained_without_timm(tmp_path: Path, loaded_by: Loaded) -> None:
    quick = ("--set", "train.epochs=1", "--set", "train.compile=off", "--json")
    assert "timm" not in loaded_by("train", "digits", "--out", tmp_path / "x", *quick)

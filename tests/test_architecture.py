"""The direction of flow: imports point left, no two modules need each other, and learning cannot reach the test set."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import fscil

SOURCE = Path(fscil.__file__).parent

# A room imports from rooms before it. Two rooms in one place do not know each other: experiments measure, pages show.
ORDER = [
    "core", "metrics", "data", "backbones", "objectives", "training", "methods", "evaluation", "matrix_files",
    "results", "paper", ("experiments", "pages"), "sharing", "teach", "web", "cli", "__main__",
]  # fmt: skip
PLACE = {room: place for place, rooms in enumerate(ORDER) for room in ([rooms] if isinstance(rooms, str) else rooms)}
# Learning code has no way to test images: it may import this and no more. Data sets are also in scikit-learn and
# torchvision, and whatever reads files or looks modules up by name leads everywhere.
LEARNING = ("backbones", "objectives", "training", "methods")
LEARNING_DATA = {f"data.{name}" for name in ("augment", "batches", "colours", "episodes", "fantasy", "session")}
LEARNING_PACKAGES = {
    *("fscil", "torch", "timm", "lightning", "safetensors", "scipy", "numpy"),
    *("__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "difflib", "functools", "hashlib", "io"),
    *("itertools", "json", "logging", "math", "pathlib", "time", "typing", "zlib"),
}
BY_NAME = {"__import__", "__builtins__", "__loader__", "__spec__", "eval", "exec", "compile", "globals"}


def modules() -> dict[str, Path]:
    """Dotted names below fscil, without the package itself."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return found


MODULES = modules()


def imported(path: Path) -> set[str]:
    """Dotted names of what a file imports from fscil, anywhere in it: inside functions and for types alone, too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("fscil.") for name in names if name.startswith("fscil.") or name == "fscil"}


def targets(path: Path) -> set[str]:
    """The modules behind these names."""
    found = set()
    for name in imported(path):
        module = name
        while module not in MODULES and "." in module:
            module = module.rpartition(".")[0]
        found.add(module if module in MODULES else "fscil")
    return found


def room(name: str) -> str:
    return name.split(".")[0]


def test_every_module_has_its_room() -> None:
    assert {room(name) for name in MODULES} == set(PLACE)
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_left(name: str) -> None:
    for target in targets(MODULES[name]):
        if target != "fscil" and room(target) != room(name):
            assert PLACE[room(target)] < PLACE[room(name)], f"{name} imports {target} against the flow"


def graph() -> dict[str, set[str]]:
    """A package's own file counts as a module that only its importers need, not as the parent of its members."""
    return {name: targets(path) - {name, "fscil"} for name, path in MODULES.items()}


def cycle(needs: dict[str, Iterable[str]]) -> list[str]:
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_two_modules_need_each_other() -> None:
    assert cycle(graph()) == []  # type: ignore[arg-type]


def test_a_hidden_cycle_is_noticed(tmp_path: Path) -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    bad = tmp_path / "bad.py"
    bad.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fscil.pages.kit import prose\n"
        "def f():\n    from fscil.cli.main import app\n    import fscil.core.errors\n    import fscil\n"
    )
    assert imported(bad) == {"pages.kit.prose", "cli.main.app", "core.errors", "fscil"}
    assert targets(bad) == {"pages.kit.prose", "cli.main", "core.errors", "fscil"}


def ways_out(path: Path) -> set[str]:
    """How a file of learning code could come to test images; `fscil` is one: it holds whatever is loaded as attributes.

    `import fscil.core.errors` binds that name as well, so names are imported from modules alone.
    """
    found = {name for name in targets(path) if room(name) == "data"} - LEARNING_DATA
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
            found |= {name for name in names if name.split(".")[0] not in LEARNING_PACKAGES - {"fscil"}}
        elif isinstance(node, ast.ImportFrom):
            name = node.module or "."
            found |= {name} if node.level or name == "fscil" or name.split(".")[0] not in LEARNING_PACKAGES else set()
        elif isinstance(node, ast.Name) and node.id in BY_NAME:
            found.add(node.id)
    return found


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) in LEARNING])
def test_learning_code_cannot_reach_test_images(name: str) -> None:
    """Neither by the benchmark, nor by a loader, nor through the package's public names or an import by name."""
    assert ways_out(MODULES[name]) == set()


@pytest.mark.parametrize(
    "line",
    [
        "from fscil.data import benchmark as x",
        "from fscil.data.digits import load",
        "from fscil import load_benchmark",
        "import fscil",
        "import fscil.data",
        "import fscil.data.session",  # then fscil.load_benchmark
        "import fscil.core.errors as errors, torch",
        "from torchvision.datasets import CIFAR100",
        "from sklearn.datasets import load_digits",
        "import sys",
        "from importlib import import_module",
        "from builtins import __import__ as load",
        "x = __import__('fscil')",
        "exec('import fscil')",
        "import inspect, gc",
        "import os",
    ],
)
def test_a_way_out_is_noticed(line: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(f"def f():\n    {line}\n")
    assert ways_out(tmp_path / "bad.py")


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) in ("pages", "results", "paper")])
def test_pages_do_not_need_torch(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in names} & {"torch", "torchvision", "lightning", "timm"}
    assert not {room(target) for target in targets(MODULES[name])} & {*LEARNING, "data", "evaluation", "experiments"}


def test_class_names_exist_once() -> None:
    """A name that says what a thing is does not say it of two things."""
    found: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_module_needs_unix_to_be_imported() -> None:
    unix = {"resource", "fcntl", "pwd", "grp", "termios"}
    for name, path in MODULES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            names |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
            assert not names & unix, name

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
# Learning code has no way to test images.
LEARNING = ("backbones", "objectives", "training", "methods")
FORBIDDEN = ("data", "data.benchmark", "data.dataset", "data.registry")
LOADERS = (
    *("cifar100", "cub200", "digits", "folder", "glyphs", "miniimagenet", "npz", "omniglot", "tinyimagenet"),
    *("decoded", "download", "listing", "sources", "session_lists", "stored_shots"),
)


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


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) in LEARNING])
def test_learning_code_cannot_reach_test_images(name: str) -> None:
    """Neither by the benchmark, nor by a loader, nor through the package's public names or an import by name."""
    path = MODULES[name]
    assert not targets(path) & {*FORBIDDEN, "fscil", *(f"data.{loader}" for loader in LOADERS)}
    tree = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    used = {node.id for node in tree if isinstance(node, ast.Name)}
    used |= {alias.name.split(".")[0] for node in tree if isinstance(node, ast.Import) for alias in node.names}
    used |= {(node.module or "").split(".")[0] for node in tree if isinstance(node, ast.ImportFrom)}
    assert not used & {"importlib", "__import__", "runpy", "pkgutil"}


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

"""The direction of flow: imports point left, and learning code cannot reach the test set."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fscil

SOURCE = Path(fscil.__file__).parent

# Leaves may be imported from everywhere; they import only from leaves before them.
LEAVES = ["errors", "storage", "config", "matrix", "palette", "progress", "hardware"]
FLOW = ["data", "backbones", "objectives", "training", "features", "methods", "protocol", "metrics"]
APP = ["result", "published", "report", "analysis", "pipeline", "tuning", "ablation", "results_page", "bench"]
APP += ["teach", "web"]
APP += ["cli_show", "cli_paper", "cli_tune", "cli_ablate", "cli_bench", "cli_teach", "cli"]
ORDER = [*LEAVES, *FLOW, *APP]
LEARNING = ("backbones", "objectives", "training", "features", "methods")


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names of the fscil modules and members a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("fscil.") for name in names if name.startswith("fscil.")}


def test_every_module_has_its_place() -> None:
    assert {layer(path) for path in modules()} <= set(ORDER)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_left(path: Path) -> None:
    for name in imported(path):
        target = name.split(".")[0]
        if target in ORDER:
            assert ORDER.index(target) <= ORDER.index(layer(path)), f"{path} imports {name} against the flow"


@pytest.mark.parametrize("path", [p for p in modules() if layer(p) in LEARNING], ids=lambda p: p.name)
def test_learning_code_cannot_reach_test_images(path: Path) -> None:
    forbidden = ("data.benchmark", "data.Benchmark", "data.dataset", "data.registry", "data.load_", "data.Dataset")
    assert not [name for name in imported(path) if name.startswith(forbidden)]


def test_a_backward_import_is_noticed(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from fscil.pages.report import page\n")
    assert imported(bad) == {"report.page"}

"""Our metrics against conformance/gacc.json, which was computed in fractions and 50 digits without our code."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import Summary, gacc_at, summary

FOLDER = Path(__file__).parents[2] / "conformance"
DOCUMENT: dict[str, Any] = json.loads((FOLDER / "gacc.json").read_text(encoding="utf-8"))
CASES = {case["name"]: case for case in DOCUMENT["cases"]}


def matrix_of(case: dict[str, Any]) -> AccuracyMatrix:
    return AccuracyMatrix.from_lists(case["matrix"], case["classes"], case.get("test_counts", ()))


@pytest.mark.parametrize("name", CASES)
def test_every_metric(name: str) -> None:
    case = CASES[name]
    ours, expected = dict(summary(matrix_of(case))), dict(case["expected"])
    curve = expected.pop("gacc_at")
    assert ours.keys() == expected.keys()
    for key, value in expected.items():
        assert ours[key] == (None if value is None else pytest.approx(value, abs=DOCUMENT["tolerance"])), key
    for alpha, values in curve.items():
        assert gacc_at(matrix_of(case), float(alpha)) == pytest.approx(values, abs=DOCUMENT["tolerance"])


def test_every_metric_is_covered() -> None:
    """Each with a value that is neither 0 nor 100 somewhere, and the optional ones also without."""
    for key in Summary.__annotations__:
        values = [case["expected"][key] for case in CASES.values()]
        assert any(value not in (None, 0.0, 100.0) for value in values), key
    assert CASES["base-only"]["expected"]["novel"] is None


def test_the_generator_is_independent_and_up_to_date() -> None:
    source = (FOLDER / "generate.py").read_text(encoding="utf-8")
    assert "fscil" not in source
    assert generator().cases() == DOCUMENT["cases"]


def test_the_readme_defines_every_key() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in text for key in Summary.__annotations__)


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_generate", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

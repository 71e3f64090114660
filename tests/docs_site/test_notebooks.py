"""The notebooks run as they stand, and what is stored in them is what they print and draw."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs_maker.notebooks import EXAMPLES, executed, notebooks

NAMES = [path.stem for path in notebooks()]


def meaning(cells: list[Any]) -> Iterator[list[Any]]:
    """What a reader takes from the outputs, the same on every machine: how they begin and what they are, not digits."""
    for cell in cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            kind = next((kind for kind in ("image/png", "text/markdown", "text/plain") if kind in data), "stream")
            text = "" if kind == "image/png" else "".join(output.get("text", data.get(kind, "")))
            lines = [line for line in text.splitlines() if line.strip()]
            yield [kind, *(re.sub(r"[\d.]+", "#", line.split()[0]) for line in lines)]


def stored(name: str) -> Any:
    return json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_runs_and_shows_what_is_stored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FSCIL_ENCODER", raising=False)
    found, expected = list(meaning(executed(EXAMPLES / f"{name}.ipynb").cells)), list(meaning(stored(name)["cells"]))
    assert expected
    assert found == expected, "run `make notebooks`, and look at what changed"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_is_small_and_no_machine_stands_in_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(text) < 300_000
    notebook = stored(name)
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        assert cell.get("execution_count") is None
    plain = re.sub(r'"image/png": "[^"]+"', "", text)
    assert not re.search(r"(/home/|/root/|/tmp/|/Users/|site-packages|Traceback)", plain)


def test_the_method_of_the_notebook_has_40_lines() -> None:
    method = next("".join(cell["source"]) for cell in stored("add_method")["cells"] if cell["cell_type"] == "code")
    assert "class ScaledMeans(Method)" in method
    assert len(method.splitlines()) <= 42
    assert len([line for line in method.splitlines() if line.strip()]) <= 40


def test_there_are_three() -> None:
    assert {path.name for path in Path(EXAMPLES).glob("*.ipynb")} == {
        "photographs.ipynb",
        "compare.ipynb",
        "add_method.ipynb",
    }

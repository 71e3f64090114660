"""Runs the notebooks of examples/ and stores what they print and draw: python -m docs_maker.notebooks [NOTEBOOK...]

What depends on the moment is not stored: numbers of executions, times, addresses.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
_LIMIT = 600  # seconds for a cell, on a busy machine
_ADDRESS = re.compile(r" at 0x[0-9a-f]+>")


def notebooks() -> list[Path]:
    return sorted(EXAMPLES.glob("*.ipynb"))


def executed(path: Path) -> Any:
    """The notebook with new outputs, run in an empty folder; a cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=_LIMIT, coalesce_streams=True, resources={"metadata": {"path": folder}}
        )
        client.execute(env={**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"})
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [_plain(output) for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def store(path: Path) -> None:
    nbformat.write(executed(path), path)


def _plain(output: Any) -> Any:
    if "text" in output:
        output.text = _ADDRESS.sub(">", output.text)
    if "data" in output:
        output.metadata = {}
        if output.output_type == "execute_result":
            output.execution_count = None
        if "image/png" in output.data or "text/markdown" in output.data:
            output.data.pop("text/plain", None)  # the name of an object
    return output


if __name__ == "__main__":
    for notebook in map(Path, sys.argv[1:] or notebooks()):
        store(notebook)
        print(notebook)

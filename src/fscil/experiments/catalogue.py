"""What the methods say of themselves, without importing them: they need torch, which takes seconds to load.

`catalogue.json` (written by `make docs`) holds it with the hash of every file of theirs. Where one of these files is
another now, as while a method is being written, the methods are asked.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("catalogue.json")
_FOLDER = Path(__file__).parents[1] / "methods"


def catalogue() -> list[dict[str, Any]]:
    """One plain document per method, in their order."""
    stored: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
    methods: list[dict[str, Any]] = stored["methods"] if stored["files"] == _hashes() else asked()
    return methods


def asked() -> list[dict[str, Any]]:
    from fscil.methods import MARKS, REGISTRY

    return [
        {
            "name": method.name,
            "title": method.marked_title(),
            "paper": method.paper,
            "mark": method.mark,
            "mark_means": MARKS[method.mark] if method.mark else "",
            "needs": sorted(method.needs),
            "keeps": str(budget) if (budget := method().memory()) else "",
            "summary": _summary(method),
            "differences": method.differences,
        }
        for method in REGISTRY.values()
    ]


def as_text() -> str:
    """The stored file as it should be now: a line for each file and method, so that two changes seldom meet."""
    files = ",\n".join(f"  {json.dumps(name)}: {json.dumps(digest)}" for name, digest in _hashes().items())
    methods = ",\n".join(f"  {json.dumps(row)}" for row in asked())
    return f'{{\n "files": {{\n{files}\n }},\n "methods": [\n{methods}\n ]\n}}\n'


def _summary(method: type[Any]) -> str:
    """The first line of its docstring, or of its file's: a dataclass without one gets its signature for a docstring."""
    own = method.__doc__ or ""
    text = sys.modules[method.__module__].__doc__ or "" if own.startswith(f"{method.__name__}(") else own
    return text.strip().split("\n")[0]


def _hashes() -> dict[str, str]:
    """Read as text: a checkout may have other ends of lines."""
    files = sorted(_FOLDER.glob("*.py"))
    return {file.name: hashlib.sha256(file.read_text(encoding="utf-8").encode()).hexdigest()[:16] for file in files}
